"""`%load_ext probing`: SQL in notebook cells.

    %probing -t 4711                         # the process that later cells ask
    %probing SELECT max(rss) FROM python.memory
    %%probing -o steps                       # the answer as a variable, too
    SELECT step, duration FROM python.torch_steps

Without ``-t`` all processes of this host are asked.
"""

HELP = "usage: %probing [-t TARGET] [-o NAME] [SQL], or %%probing [-t TARGET] [-o NAME] with the SQL below"


def _options(line):
    """The options at the beginning of a line as a dict, and what follows them."""
    options = {}
    rest = line.strip()
    while rest.startswith("-"):
        flag, _, rest = rest.partition(" ")
        value, _, rest = rest.strip().partition(" ")
        if flag not in ("-t", "-o") or not value:
            raise ValueError(HELP)
        options[flag] = value
        rest = rest.strip()
    return options, rest


class _Magic(object):
    def __init__(self, shell):
        self.shell = shell
        self.target = None

    def __call__(self, line, cell=None):
        from . import connect

        options, rest = _options(line)
        sql = "\n".join(part for part in (rest, cell or "") if part.strip())
        if "-t" in options:
            target = options["-t"]
            connection = connect(int(target) if target.isdigit() else target)
            self.target = connection.target
        else:
            connection = connect(self.target)
        if not sql.strip():
            if "-t" not in options:
                raise ValueError(HELP)
            return None
        answer = connection.query(sql.strip().rstrip(";"))
        if "-o" in options:
            self.shell.user_ns[options["-o"]] = answer
        return answer


def register(shell):
    shell.register_magic_function(_Magic(shell), magic_kind="line_cell", magic_name="probing")
