from jetbroker.tick import Tick, TickTask

class Worker(TickTask): ...

class WorkTurns(TickTask):
    """Gives each worker its turn, one after the other."""

    def __init__(self, tick: Tick) -> None: ...
