// How --run-path runs a Python file: as torchrun's children do.
#pragma once

namespace ddprun::launcher {

/// For `python -c`, before the file and its arguments. It ends as a child of multiprocessing does:
/// an exception is recorded for the launcher and gives exit code 1, and after threads, finalizers
/// and atexit functions the process is gone, without the destructors of C++ libraries. In these
/// torch now and then aborts after a perfect run. Has no `$`, which arguments cannot hold.
inline constexpr const char* kRunPathProgram =
    R"py(import atexit, json, os, runpy, sys, threading, time, traceback
from multiprocessing import util

def record(error):
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != sys.argv[0]:
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(type(error), error, trace))
    sys.stderr.write(lines)
    if not file:
        return
    extra = {"py_callstack": lines, "timestamp": str(int(time.time()))}
    message = {"message": type(error).__name__ + ": " + str(error), "extraInfo": extra}
    try:
        with open(file, "w") as out:
            json.dump({"message": message}, out)
    except OSError as failed:
        sys.stderr.write("no error file: " + str(failed) + "\n")

def run():
    try:
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
            return 0
        finally:
            util._exit_function()
    except SystemExit as end:
        if end.code is None:
            return 0
        if isinstance(end.code, int):
            return end.code & 255
        sys.stderr.write(str(end.code) + "\n")
    except BaseException as error:
        record(error)
    return 1

del sys.argv[0]
if not getattr(sys.flags, "safe_path", False):
    sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
code = run()
threading._shutdown()
atexit._run_exitfuncs()
util._flush_std_streams()
os._exit(code)
)py";

}  // namespace ddprun::launcher
