from jetbroker.tick import TickTask

class StreamConsumer(TickTask):
    name: str
