"""probing.config: the settings of the probe in this process."""

import os

from . import _library


class Config(object):
    """``probing.config["probing.table_rows"] = 50000``; reads and changes settings at run time.

    A wrong name or value is a ValueError that names the nearest right one.
    """

    def _ask(self, *fields):
        if _library.in_notebook():
            _library.load()
        path = _library.wait_for_socket()
        if path is None:
            raise RuntimeError(
                "process %d has no probe: load one with probing.load(), or start the program with PROBING=1"
                % os.getpid()
            )
        from . import _control

        return _control.ask(path, "config", *fields)

    def __getitem__(self, name):
        settings = self._ask()
        if name not in settings:
            self._ask(("set:" + name, ""))  # whose error says what name was meant
            raise KeyError(name)
        return settings[name]

    def __setitem__(self, name, value):
        self._ask(("set:" + name, str(value).lower() if isinstance(value, bool) else str(value)))

    def __iter__(self):
        return iter(self._ask())

    def __len__(self):
        return len(self._ask())

    def items(self):
        """Pairs of name and value, of all settings of this process."""
        return self._ask().items()

    def update(self, settings):
        """All of these, or none when one is wrong."""
        self._ask(*[("set:" + name, str(value)) for name, value in dict(settings).items()])

    def __repr__(self):
        return "Config(%r)" % dict(self.items())


config = Config()
