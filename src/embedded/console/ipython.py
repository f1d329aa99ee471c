# `probing repl --ipython`: IPython does what a line says, with the session's names. It is imported because
# somebody asked for it, and stays imported. Its history, its hold on __main__ and its threads stay out of
# the job. Runs in the target. Python 3.6 syntax.
from ..core.describe import Refused
from ..core.guard import may_end
from .evaluate import FILE_NAME, ONLY_AST, Incomplete
from .session import MayEndTheJob


def shell_of(session):
    if session.shell is None:
        session.shell = make_shell(session)
    return session.shell


def make_shell(session):
    try:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
    except Exception as error:
        raise Refused(
            "this process has no IPython (%s); the prompt without --ipython needs none" % error
        ) from None

    class Shell(InteractiveShell):
        """Without what IPython changes in a process that is its own."""

        def init_virtualenv(self):
            pass

        def init_sys_modules(self):
            self._main_mod_cache = {}

        def ask_exit(self):
            print("^D leaves")

    builtins = __import__("builtins")
    before = dict(vars(builtins))
    config = Config()
    config.HistoryManager.enabled = False  # a thread, and a file in the user's home
    config.InteractiveShell.colors = "NoColor"
    atexit = __import__("atexit")
    session.names["__name__"] = "__probing__"
    try:
        shell = Shell(config=config, user_ns=session.names)
    finally:
        for name in set(vars(builtins)) - set(before):
            delattr(builtins, name)
    atexit.unregister(shell.atexit_operations)
    return shell


def ipython_line(session, source, options):
    shell = shell_of(session)
    if options.get("whole") != "1":
        state = shell.check_complete(source if source.endswith("\n") else source + "\n")[0]
        if state == "incomplete" and not source.endswith("\n\n") and not source.endswith("\n"):
            raise Incomplete()
    if options.get("confirmed") != "1":
        try:
            danger = may_end(compile(shell.transform_cell(source), FILE_NAME, "exec", ONLY_AST))
        except SyntaxError:
            danger = ""
        if danger:
            raise MayEndTheJob("%s may end the job; nothing was run" % danger)
    shell.run_cell(source, store_history=True)
    return None


def ipython_candidates(session, text):
    """Of its %magics; names are completed as without it."""
    typed, found = session.shell.complete(text, text)
    return len(typed), list(found)
