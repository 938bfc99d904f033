from jetbroker.config.options import PermissionsOptions

class Permissions:
    options: PermissionsOptions
    def __init__(self, options: PermissionsOptions) -> None: ...
