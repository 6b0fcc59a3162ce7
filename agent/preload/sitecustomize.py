"""Imports the modules of a job once. Every worker is then a fork of this process.

It runs as the module sitecustomize: the interpreter has the job's own command line, and has not looked at the script, module
or command yet. In a worker it returns, and the interpreter goes on as one that was just started. So it imports as little as
possible, because a worker keeps that, and undoes what makes this interpreter different from one without it.

The agent is at the other end of the socket that is our stdin (importer.hpp). Its packets: "check", which only asks whether
this file is run at all; or "import", with the number of words, the command line and the modules in a file, then "worker" with
the descriptors of one worker, and "fork". Ours: "ready", or "failed" with a module that can be left out or nothing, and the
reason, and then this process ends.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/infiniband/")
# Modules that import others only when they are used: torch.optim does when the first optimizer is made.
_IMPORT_LATER = {"torch.optim": "torch._dynamo"}
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9
_ADOPTION_LIMIT = 10  # seconds
_REASON_MAX = 4000  # bytes
# Variables that only workers have: an import that looks for one would find it there.
_OF_WORKERS = frozenset(("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
                         "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"))
# Variables that Python and libraries read when they start: a worker cannot have a value of its own.
_READ_AT_START = (b"PYTHON", b"OMP_", b"KMP_", b"MKL_", b"OPENBLAS_", b"LD_")
_READ_LATER = (b"PYTHONPATH", b"PYTHONBREAKPOINT")


class _Refused(Exception):
    """Why the workers must be started without this, or with `module` left out of what is imported here."""

    def __init__(self, reason, module=""):
        super().__init__(reason)
        self.module = module


def _socket_of(descriptor):
    import _socket

    return _socket.socket(fileno=descriptor)


def _receive(socket):
    """One packet, and the descriptors that came with it."""
    import _socket

    packet, ancillary, flags, _ = socket.recvmsg(4096, _socket.CMSG_SPACE(4 * 16), _socket.MSG_CMSG_CLOEXEC)
    if flags & _socket.MSG_CTRUNC:
        raise _Refused("so many workers need a higher limit of open files (ulimit -n)")
    descriptors = []
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors += [int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data) - 3, 4)]
    return packet, descriptors


def _send_reason(socket, error):
    """The other end may be gone."""
    module, reason = (error.module, str(error)) if isinstance(error, _Refused) else ("", f"{type(error).__name__}: {error}")
    try:
        socket.send(f"failed\0{module}\0{reason}".encode("utf-8", "backslashreplace")[:_REASON_MAX])
    except OSError:
        pass


def _read_all(descriptor):
    """From its beginning. Leaves the offset where it is."""
    parts = []
    while True:
        part = os.pread(descriptor, 1 << 20, sum(map(len, parts)))
        if not part:
            return b"".join(parts)
        parts.append(part)


def _write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]


# Which modules
# ----------------------------------------------------------------------------


def _command_line():
    """As the kernel has it: sys.orig_argv is missing before Python 3.10."""
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def _own_folder():
    """What the interpreter will put in front of sys.path for this program; None: nothing."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return None
    if sys.argv[0] in ("-m", "-c"):
        return os.getcwd()
    path = os.path.realpath(sys.argv[0])
    return path if os.path.isdir(path) else os.path.dirname(path)


def _find_spec(name, path):
    """Of a module below the folders `path`. Found without running its packages."""
    finder = sys.modules["_frozen_importlib_external"].PathFinder
    whole = ""
    spec = None
    for part in name.split("."):
        whole = f"{whole}.{part}" if whole else part
        spec = finder.find_spec(whole, path) if path is not None else None
        path = None if spec is None else spec.submodule_search_locations
    return spec


def _source_of(name):
    """The file of the module that -m runs."""
    folder = _own_folder()
    path = sys.path if folder is None else [folder, *sys.path]
    spec = _find_spec(name, path)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find_spec(f"{name}.__main__", path)
    if spec is None or not spec.origin or not os.path.isfile(spec.origin):
        raise _Refused(f"the module {name} has no source whose imports could be read; name the modules: --preload=torch")
    return spec.origin


def _program():
    """The file of what the workers run, and the package that it is in; of -c the text, as bytes."""
    target = sys.argv[0]
    if target in ("-c", "-m"):
        words = _command_line()
        text = words[len(words) - len(sys.argv)]
        if target == "-m":
            source = _source_of(text)
            return source, text if os.path.basename(source) == "__main__.py" else text.rpartition(".")[0]
        if "runpy.run_path(sys.argv[0]" not in text:
            return os.fsencode(text), ""
        target = sys.argv[1]  # launcher/program/run_path.hpp
    if os.path.isdir(target):
        target = os.path.join(target, "__main__.py")
    return target, ""


class _Program:
    """The imports with which a program begins, found by reading it and the modules beside it, and running nothing. They end
    where it does something else, which later imports may see: it sets a variable, say, or sys.path."""

    # Calls that no import sees.
    _HARMLESS = frozenset(("logging.getLogger", "getLogger", "Path", "pathlib.Path", "TypeVar", "typing.TypeVar", "namedtuple",
                           "collections.namedtuple", "os.path.join", "os.path.dirname", "os.path.abspath"))

    def __init__(self):
        self.found = []  # (module, names)
        self.sets_variables = False
        self._ended = None  # where: FILE:LINE
        self._left_out = None  # the first import behind it
        self._folder = _own_folder()
        self._seen = set()
        program, package = _program()
        if isinstance(program, bytes):
            self._read(program, "the command", package)
        else:
            self._follow_packages(package)
            with open(program, "rb") as file:
                self._read(file.read(), program, package)

    def remark(self):
        """What is not imported here and why; empty: nothing."""
        if not self._left_out:
            return ""
        file, line = self._ended
        return (f"{os.path.basename(file)} does something else in line {line}, before it imports {self._left_out}; if that does "
                f"not matter to the import, name it: --preload={self._left_out}")

    def _read(self, source, name, package):
        only_syntax = 0x400  # ast.PyCF_ONLY_AST
        try:
            tree = compile(source, name, "exec", only_syntax, True)
        except (SyntaxError, ValueError):
            raise _Refused(f"{name} cannot be parsed as Python") from None
        for statement in tree.body:
            kind = type(statement).__name__
            if kind == "Import":
                for alias in statement.names:
                    self._take(alias.name, ())
            elif kind == "ImportFrom" and statement.module != "__future__":
                self._take(self._absolute(statement, package), tuple(alias.name for alias in statement.names))
            elif not self._ended and not self._is_harmless(statement):
                self._ended = name, statement.lineno
        self.sets_variables = self.sets_variables or self._sets_variables(tree)

    @staticmethod
    def _absolute(statement, package):
        parts = package.split(".")
        base = ".".join(parts[: len(parts) - statement.level + 1]) if statement.level else ""
        return ".".join(part for part in (base, statement.module) if part)

    def _take(self, module, names):
        """An import of this program; one of a module beside it is followed."""
        if self._folder is not None and _find_spec(module.partition(".")[0], [self._folder]) is not None:
            self._follow_packages(module)
            for name in names:
                self._follow(f"{module}.{name}")
        elif self._ended:
            if module.partition(".")[0] not in getattr(sys, "stdlib_module_names", sys.builtin_module_names):
                self._left_out = self._left_out or module
        else:
            self.found.append((module, names))

    def _follow_packages(self, module):
        parts = module.split(".") if module else []
        for count in range(1, len(parts) + 1):
            self._follow(".".join(parts[:count]))

    def _follow(self, module):
        if module in self._seen or self._folder is None:
            return
        self._seen.add(module)
        spec = _find_spec(module, [self._folder])
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            return
        with open(spec.origin, "rb") as file:
            self._read(file.read(), spec.origin, module if spec.submodule_search_locations is not None else module.rpartition(".")[0])

    def _is_harmless(self, node):
        kind = type(node).__name__
        if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef", "Lambda"):
            return all(self._is_harmless(decorator) for decorator in getattr(node, "decorator_list", ()))
        if kind in ("Delete", "With", "AsyncWith", "For", "AsyncFor", "While", "Await"):
            return False
        if kind == "Call" and self._dotted(node.func) not in self._HARMLESS:
            return False
        if kind in ("Attribute", "Subscript") and type(node.ctx).__name__ != "Load":
            return False
        return all(self._is_harmless(child) for child in _children(node))

    def _sets_variables(self, tree):
        """Whether it sets any environment variable anywhere."""
        nodes = [tree]
        while nodes:
            node = nodes.pop()
            kind = type(node).__name__
            if kind == "Subscript" and type(node.ctx).__name__ != "Load" and self._dotted(node.value).endswith("environ"):
                return True
            if kind == "Call":
                name = self._dotted(node.func)
                if name.endswith(("environ.update", "environ.setdefault", "environ.pop", "putenv", "unsetenv")):
                    return True
            nodes += _children(node)
        return False

    def _dotted(self, node):
        """os.environ.get of such an expression; nothing of others."""
        kind = type(node).__name__
        if kind == "Name":
            return node.id
        if kind == "Attribute":
            base = self._dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""


def _children(node):
    for field in node._fields:
        value = getattr(node, field, None)
        for child in value if isinstance(value, list) else [value]:
            if hasattr(child, "_fields"):
                yield child


# Importing
# ----------------------------------------------------------------------------


def _nearest(name):
    import difflib
    import pkgutil

    known = {module.name for module in pkgutil.iter_modules()} | set(getattr(sys, "stdlib_module_names", ()))
    near = difflib.get_close_matches(name.partition(".")[0], sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _import(module, names, is_named):
    """`is_named`: by the user. Gives the variables of workers that it looked for."""
    looked_for = []
    usual = os.environ.encodekey

    def watch(name):
        if name in _OF_WORKERS:
            looked_for.append(name)
        return usual(name)

    os.environ.encodekey = watch
    try:
        __import__(module, {}, {}, list(names), 0)
    except ModuleNotFoundError as error:
        if is_named and error.name and (module + ".").startswith(error.name + "."):
            raise _Refused(f"there is no module {error.name} for {sys.executable}{_nearest(error.name)}", module) from None
        raise _Refused(f"importing {module} failed: {error}", module) from None
    except BaseException as error:  # pylint: disable=broad-except  # SystemExit, too
        raise _Refused(f"importing {module} failed: {type(error).__name__}: {error}", module) from None
    finally:
        os.environ.encodekey = usual
    return looked_for


def _threads():
    """The names of all but the first thread."""
    threading = sys.modules.get("threading")
    known = {thread.native_id: thread.name for thread in threading.enumerate()} if threading else {}
    names = []
    for task in os.listdir("/proc/self/task"):
        if int(task) != os.getpid():
            try:
                with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as file:
                    names.append(known.get(int(task)) or file.read().strip())
            except OSError:
                pass  # it has just ended
    return names


def _threads_that_a_fork_loses():
    """Not those of a library that ends them before a fork and starts them again when it needs them, as OpenBLAS."""
    if _threads():
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return _threads()


def _open_devices():
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if path.startswith(_DEVICES):
            found.append(path)
    return found


def _has_a_living_child():
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _lost_by_a_fork():
    """What an import has done that a fork would lose; empty: nothing."""
    threads = _threads_that_a_fork_loses()
    if threads:
        return f"starts a thread ({threads[0]}), which a fork would lose"
    if _has_a_living_child():
        return "starts a process, which would be the child of no worker"
    devices = _open_devices()
    return f"opens a device ({devices[0]}), which workers cannot share" if devices else ""


class _Surroundings:
    """What an import must leave as it was."""

    def __init__(self, folder):
        self._folder = folder
        self._place = os.getcwd()
        self._files = self._open_files()

    @staticmethod
    def _open_files():
        """(descriptor, path) of those whose place in a file, or whose other end, workers would share."""
        found = set()
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                kind = os.stat(f"/proc/self/fd/{descriptor}").st_mode >> 12
                with open(f"/proc/self/fdinfo/{descriptor}", encoding="utf-8") as file:
                    flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
                is_socket, is_file = kind == 0o14, kind == 0o10
                if is_socket or (is_file and not flags & os.O_APPEND):
                    found.add((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
            except OSError:
                pass  # it was that of the listing
        return found

    def check(self, module, looked_for):
        problem = _lost_by_a_fork() or self._what_has_changed(looked_for)
        if problem:
            raise _Refused(f"importing {module} {problem}", module)

    def _what_has_changed(self, looked_for):
        if looked_for:
            return f"looks for {looked_for[0]}, which only workers have"
        if os.getcwd() != self._place:
            return "changes the working directory"
        if self._folder is not None and sys.path[0] != self._folder:
            return f"puts {sys.path[0]} in front of the program's own folder"
        opened = self._open_files() - self._files
        return f"leaves {min(opened)[1]} open, which workers would share" if opened else ""


class _Wanted:
    """What is to be imported."""

    def __init__(self, names):
        self._left_out = [name[1:] for name in names if name.startswith("-")]
        self.modules = []  # (module, names, whether the user named it)
        self.remark = ""
        self._brings_later = False
        for name in names:
            if name == "auto":
                self._add_imports_of(_Program())
            elif not name.startswith("-"):
                if _is_program(name):
                    raise _Refused(f"{name} is the program itself; --preload=auto takes its imports")
                self.modules.append((name, (), True))
        self.modules = [one for one in self.modules if self._may_be(one[0])]

    def _add_imports_of(self, program):
        self.remark = program.remark()
        self._brings_later = not program.sets_variables
        self.modules += [(module, parts, False) for module, parts in program.found]
        if not program.found:
            raise _Refused(self.remark or "the program begins with no import of an installed module; name the modules: "
                           "--preload=torch")

    def _may_be(self, module):
        return not any((module + ".").startswith(name + ".") for name in self._left_out)

    def later(self):
        """What the modules that are there now would import by themselves when they are used."""
        return [(later, (), False) for first, later in _IMPORT_LATER.items()
                if self._brings_later and first in sys.modules and self._may_be(later) and _is_installed(later)]


def _is_installed(module):
    return _find_spec(module, sys.path) is not None


def _is_program(name):
    folder = _own_folder()
    spec = None if folder is None else _find_spec(name, [folder])
    program, _ = _program()
    return spec is not None and spec.origin == (program if isinstance(program, bytes) else os.path.realpath(program))


def _import_all(names):
    """The modules with commas, and a remark for the user or nothing."""
    folder = _own_folder()
    wanted = _Wanted(names)
    if folder is not None:
        sys.path.insert(0, folder)
    surroundings = _Surroundings(folder)
    modules = wanted.modules
    try:
        for module, parts, is_named in modules:
            surroundings.check(module, _import(module, parts, is_named))
        for module, parts, is_named in wanted.later():
            surroundings.check(module, _import(module, parts, is_named))
    except _Refused as refused:
        if all((module + ".").startswith(refused.module + ".") for module, *_ in modules):
            refused.module = ""  # nothing else is left
        raise
    finally:
        if folder is not None and folder in sys.path:
            sys.path.remove(folder)
    return ", ".join(module for module, *_ in modules), wanted.remark


class _Files:
    """The files that were imported, as they were then."""

    def __init__(self):
        self._seen = {}
        paths = {sys.executable}
        for module in list(sys.modules.values()):
            paths.add(getattr(module, "__file__", None))
        for path in paths:
            if isinstance(path, str):
                self._seen[path] = self._state(path)

    @staticmethod
    def _state(path):
        try:
            state = os.stat(path)
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino

    def changed(self):
        return next((path for path, state in self._seen.items() if self._state(path) != state), None)


# A worker
# ----------------------------------------------------------------------------


class _Worker:
    """What one worker gets. The first descriptor has the rest: the agent's pid, CPUs, the number of words, words, variables."""

    def __init__(self, descriptors):
        self._payload, *self._streams, self.answer = descriptors[:5]
        self._cgroup = descriptors[5] if len(descriptors) > 5 else None
        self._descriptors = descriptors
        agent, cpus, words, *rest = _read_all(self._payload).split(b"\0")
        self._agent = int(agent)
        self._cpus = [int(cpu) for cpu in cpus.split(b",") if cpu]
        self._words = [os.fsdecode(word) for word in rest[: int(words)]]
        self._variables = [entry for entry in rest[int(words) :] if entry]

    def close(self):
        for descriptor in self._descriptors:
            os.close(descriptor)

    def settle(self, command, environment, middle):
        """Makes of this process what exec would have made. `command`: the words that this process was started with, as the
        agent gave them. `environment`: the variables before the imports. `middle`: a descriptor that ends with the process that
        forked us."""
        os.setsid()
        self._await_adoption(middle)
        if self._cgroup is not None:
            os.write(self._cgroup, b"0")
        if self._cpus:
            os.sched_setaffinity(0, self._cpus)
        for target, source in enumerate(self._streams):
            os.dup2(source, target, inheritable=True)
        self._set_environment(environment)
        self._set_arguments(command)
        _renew_streams()
        _renew_main_thread()
        _renew_random_state()

    def _await_adoption(self, middle):
        """The process that forked us ends, and the agent becomes our parent."""
        import ctypes
        import time

        os.read(middle, 1)
        os.close(middle)
        until = time.monotonic() + _ADOPTION_LIMIT
        while os.getppid() != self._agent:
            if time.monotonic() > until:
                raise _Refused("the agent has not become the parent of the worker")
            time.sleep(0.0002)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != self._agent:
            os._exit(127)

    def _set_environment(self, before):
        """What the imports have changed stays changed, where they saw what the worker would have shown them."""
        wanted = dict(entry.partition(b"=")[::2] for entry in self._variables)
        for name in sorted(set(wanted) | set(before) | set(os.environb)):
            if wanted.get(name) == before.get(name):
                if name in os.environb:
                    wanted[name] = os.environb[name]
                else:
                    wanted.pop(name, None)
            elif name.startswith(_READ_AT_START) and name not in _READ_LATER:
                raise _Refused(f"{os.fsdecode(name)} would have to be set before Python starts")
        for name in list(os.environb):
            if name not in wanted:
                del os.environb[name]
        for name, value in wanted.items():
            if os.environb.get(name) != value:
                os.environb[name] = value

    def _set_arguments(self, command):
        arguments = len(sys.argv) - 1
        program = len(command) - arguments  # a wrapper of Python may have changed these words, which count then
        if self._words[:program] != command[:program]:
            raise _Refused("the workers have different programs")
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[len(sys.orig_argv) - arguments :] = self._words[program:]
        sys.argv[1:] = self._words[program:]


def _renew_streams():
    """As the interpreter makes them at its start; whether one is a terminal is known only now."""
    import io

    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, f"__{name}__")
        writes = descriptor > 0
        unbuffered = old.write_through
        buffering = 0 if unbuffered and writes else -1
        binary = io.open(descriptor, "wb" if writes else "rb", buffering, closefd=False)
        raw = binary if buffering == 0 else binary.raw
        raw.name = f"<{name}>"
        by_lines = not unbuffered and (raw.isatty() or name == "stderr")
        stream = io.TextIOWrapper(binary, old.encoding, old.errors, "\n", by_lines, unbuffered)
        stream.mode = "w" if writes else "r"
        setattr(sys, f"__{name}__", stream)
        if getattr(sys, name) is old:
            setattr(sys, name, stream)


def _renew_main_thread():
    """Python looks at the number of its first thread when `threading` is imported, and not after a fork."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()  # pylint: disable=protected-access


def _renew_random_state():
    """What modules draw from the system when they are imported. The module random does so itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()  # of the CPU: those of GPUs are made with their contexts
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


# The process that imports
# ----------------------------------------------------------------------------


def _fork_workers(workers, kept, command, environment, printed):
    """In a process that ends once it has forked all workers, so that the agent becomes their parent. Returns in a worker.
    `printed`: by the imports, for stdout and stderr."""
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)
    middle, ours = os.pipe()  # the workers close our end: when this process ends, they are told
    for worker in workers:
        if os.fork() == 0:
            break
    else:
        os._exit(0)
    os.close(ours)
    answer = _socket_of(os.dup(worker.answer))
    try:
        worker.settle(command, environment, middle)
        for other in workers:
            other.close()
        for descriptor in kept:
            os.close(descriptor)
        answer.send(b"ready")
        if answer.recv(16) != b"go":
            os._exit(127)
    except BaseException as error:  # pylint: disable=broad-except
        _send_reason(answer, error)
        os._exit(127)
    answer.close()
    for target, text in zip((1, 2), printed):
        _write_all(target, text)


def _serve(control, kept, environment):
    """Returns in a worker."""
    packet, descriptors = _receive(control)
    if packet == b"check":
        control.send(b"ready")
    if packet != b"import":
        os._exit(0)
    with open("/proc/self/comm", "rb+", buffering=0) as file:  # in place of Python's, so that ps tells it from the workers
        usual_name = file.read().rstrip(b"\n")
        file.write(b"ddp-preload")
    number, *fields = [os.fsdecode(field) for field in _read_all(descriptors[0]).split(b"\0")]
    os.close(descriptors[0])
    command, names = fields[: int(number)], fields[int(number) :]
    _import_own_sitecustomize()
    import atexit
    import gc

    atexit.register(gc.unfreeze)  # of the workers, as their last: their objects end as they would without us
    modules, remark = _import_all(names)
    import ctypes  # of all workers, before they are forked
    import time

    files = _Files()
    gc.collect()
    gc.freeze()  # the collector of a worker would write to pages that all share
    sys.stdout.flush()
    sys.stderr.flush()
    control.send(f"ready\0{remark}\0{modules}".encode("utf-8", "backslashreplace")[:_REASON_MAX])
    workers = []
    while True:
        packet, descriptors = _receive(control)
        if packet == b"worker":
            workers.append(_Worker(descriptors))
        elif packet == b"fork":
            path = files.changed()
            if path is not None:
                raise _Refused(f"{path} has changed since it was imported")
            lost = _lost_by_a_fork()
            if lost:
                raise _Refused(f"what was imported {lost}")
            printed = [_read_all(1), _read_all(2)]
            middle = os.fork()
            if middle == 0:
                _fork_workers(workers, kept, command, environment, printed)
                with open("/proc/self/comm", "wb", buffering=0) as file:
                    file.write(usual_name)
                return
            os.waitpid(middle, 0)
            for worker in workers:
                worker.close()
            workers = []
        else:
            os._exit(0)  # the agent has closed its end


def _import_own_sitecustomize():
    """The user's, which ours stands before."""
    try:
        import sitecustomize
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise _Refused(f"this Python's own sitecustomize fails: {error}") from None
    except Exception as error:  # pylint: disable=broad-except
        raise _Refused(f"this Python's own sitecustomize fails: {type(error).__name__}: {error}") from None


def _hide():
    """So that this file leaves no trace in the interpreter, nor on disk where compiled files have a folder of their own."""
    compiled = getattr(__spec__, "cached", None)
    if compiled and not compiled.startswith(_FOLDER):
        try:
            os.unlink(compiled)
        except OSError:
            pass
    sys.path.remove(_FOLDER)
    sys.path_importer_cache.pop(_FOLDER, None)
    del sys.modules["sitecustomize"]
    own = os.environ.pop("DDPRUN_PRELOAD_PYTHONPATH", None)
    if own is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = own


def _run():
    importer = os.getpid()
    control = None
    try:
        # Our stdin is the control socket: what the imports start must not have it.
        number = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nothing, 0)
        os.close(nothing)
        control = _socket_of(number)
        _hide()
        _serve(control, [number], dict(os.environb))
        control.detach()  # the worker has closed the number
    except BaseException as error:  # pylint: disable=broad-except
        if os.getpid() == importer and control is not None:
            _send_reason(control, error)
        os._exit(1)  # Python would go on with the program
    if "sitecustomize" not in sys.modules:
        raise ModuleNotFoundError("none", name="sitecustomize")  # as without this file


if __name__ == "sitecustomize":
    _run()
