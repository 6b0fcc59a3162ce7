"""--preload: modules are imported once for all workers, and where that cannot be, it is said and the workers do it."""

import os
import pathlib
import signal
import socket
import sys
import time

from preload_job import PreloadTest, eventually, text_of

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"

# Each worker tells whether it had the module before.
TELLS = """import sys
print("had it" if "counted" in sys.modules else "had it not")
import counted
"""


class Imports(PreloadTest):
    def test_modules_are_imported_once_for_all_workers(self):
        result = self.ddprun("--preload=counted", "--nproc-per-node=3", self.script(TELLS))
        self.assertEqual(result.lines, ["had it"] * 3)
        self.assertEqual(len(self.imports()), 1)
        self.assertEqual(result.err, "")

    def test_each_worker_is_a_process_of_its_own_below_the_agent(self):
        script = self.script("import os, counted\nprint(os.getpid(), os.getppid(), counted.os.getsid(0) == os.getpid())\n")
        result = self.ddprun("--preload=counted", "--nproc-per-node=3", script)
        pids, parents, leads = zip(*(line.split() for line in result.lines))
        self.assertEqual((len(set(pids)), len(set(parents)), set(leads)), (3, 1, {"True"}))
        self.assertNotIn(str(self.imports()[0]), [*pids, *parents])

    def test_restarted_workers_have_the_modules_too(self):
        script = self.script(TELLS + "import os\nsys.exit(os.environ['RANK'] == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] < '2')")
        result = self.ddprun("--preload=counted", "--nproc-per-node=2", "--max-restarts=3", "--restart-delay=0", script)
        self.assertEqual(set(result.lines), {"had it"})
        self.assertGreaterEqual(len(result.lines), 4)
        self.assertEqual(len(self.imports()), 1)

    def test_each_node_imports_for_its_own_workers(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{free.getsockname()[1]}"
        words = ["--preload=counted", "--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}",
                 "--rdzv-id=both", self.script(TELLS)]
        results = [self.wait(node) for node in [self.start(*words), self.start(*words)]]
        for result in results:
            self.assertEqual((result.status, result.lines, result.problems), (0, ["had it"] * 2, []), result)
        self.assertEqual(len(self.imports()), 2)

    def test_a_node_of_which_all_workers_go_on_forks_none_and_waits_for_none(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{free.getsockname()[1]}"
        script = self.script(f"""import os, sys, time
print("had it" if "counted" in sys.modules else "had it not", flush=True)
sys.path.insert(0, {str(PACKAGE)!r})
from ddprun import elastic
for round in elastic.rounds():
    with round:
        step = 0
        while round.number == 0:
            step += 1
            round.check(step)
            time.sleep(0.01)
            if round.rank == 3 and step == 100:
                os.kill(os.getpid(), 9)
        print("kept" if not round.is_new else "new")
""")
        words = ["--preload=counted", "--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}",
                 "--rdzv-id=both", "--max-restarts=1", "--restart-delay=0", script]
        results = [self.wait(node) for node in [self.start(*words), self.start(*words)]]
        for result in results:
            self.assertEqual((result.status, result.problems), (0, []), result)
        lines = sorted(line for result in results for line in result.lines)
        self.assertEqual(lines, ["had it"] * 5 + ["kept"] * 3 + ["new"], "".join(map(str, results)))

    def test_a_file_under_run_path(self):
        script = self.script(TELLS + "print(__name__, sys.argv)\nsys.exit(300)\n")
        result = self.ddprun("--preload=counted", "--run-path", script, "a", status=44)
        self.assertEqual(result.lines, [f"__main__ [{script!r}, 'a']", "had it"])

    def test_what_an_import_prints_is_printed_by_each_worker(self):
        self.module("talks", "import sys\nprint('from the import')\nprint('and a warning', file=sys.stderr)\n")
        result = self.ddprun("--preload=talks", "--nproc-per-node=2", self.script("import talks\nprint('from the script')\n"))
        self.assertEqual(result.lines, ["from the import"] * 2 + ["from the script"] * 2)
        self.assertEqual(result.err.count("and a warning"), 2)

    def test_exit_codes_signals_and_exceptions_of_workers_stay_what_they_are(self):
        for end, status in (("sys.exit(3)", 3), ("raise ValueError('bad lr')", 1), ("os.kill(os.getpid(), 9)", 137),
                            ("os.abort()", 134), ("sys.exit('some text')", 1), ("os._exit(7)", 7)):
            with self.subTest(end):
                script = self.script(f"import os, sys, counted\n{end}\n")
                ordinary = self.ddprun("--nproc-per-node=2", script, status=status)
                preloaded = self.ddprun("--preload=counted", "--nproc-per-node=2", script, status=status)
                self.assertEqual("Traceback" in preloaded.err, "Traceback" in ordinary.err)
                self.assertEqual("bad lr" in preloaded.err, "bad lr" in ordinary.err)

    def test_workers_read_stdin_and_write_as_without_it(self):
        script = self.script("import sys, os\nprint(os.environ['RANK'], repr(sys.stdin.read()))\n")
        with open(self.folder / "input", "w+", encoding="utf-8") as stdin:
            stdin.write("text\n")
            stdin.seek(0)
            process = self.start("--preload=counted", "--nproc-per-node=2", script, stdin=stdin)
            result = self.wait(process)
        self.assertEqual(result.lines, ["0 'text\\n'", "1 ''"])

    def test_random_numbers_differ_between_workers_and_rounds(self):
        self.module("draws", "import random, tempfile, uuid, multiprocessing\ntry:\n    import numpy\nexcept ImportError:\n    numpy = None\n")
        script = self.script("""import draws, os, sys
print("random", draws.random.random())
print("uuid", draws.uuid.uuid4())
print("name", next(draws.tempfile._get_candidate_names()))
print("key", draws.multiprocessing.current_process().authkey.hex())
if draws.numpy: print("numpy", draws.numpy.random.rand())
sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
""")
        result = self.ddprun("--preload=draws", "--nproc-per-node=2", "--max-restarts=1", "--restart-delay=0", script)
        self.assertGreaterEqual(len(result.lines), 8)
        self.assertEqual(len(set(result.lines)), len(result.lines), result)

    def test_the_environment_is_the_workers_own(self):
        script = self.script("import os, counted\nprint(os.environ['RANK'], os.getenv('LOCAL_RANK'), os.environ.get('PYTHONPATH'))\n"
                             "os.system('echo child $RANK ${DDPRUN_PRELOAD_PYTHONPATH-none}')\n")
        result = self.ddprun("--preload=counted", "--nproc-per-node=2", script)
        self.assertEqual(result.lines, [f"0 0 {self.modules}", f"1 1 {self.modules}", "child 0 none", "child 1 none"])

    def test_what_imports_change_in_the_environment_stays_changed(self):
        self.module("changes", """import os
os.environ["SET"] = "by the import"
os.environ.pop("TAKEN", None)
os.environ["GIVEN"] += " and more"
""")
        script = self.script("import os\nimport changes\nprint(*(os.environ.get(name) for name in ('SET', 'TAKEN', 'GIVEN')))\n"
                             "os.system('echo $SET')\n")
        for words in ((), ("--preload=changes",)):
            result = self.ddprun(*words, "--nproc-per-node=2", script, TAKEN="1", GIVEN="given")
            self.assertEqual(result.lines, ["by the import"] * 2 + ["by the import None given and more"] * 2)

    def test_much_that_imports_print_does_not_hold_up_the_round(self):
        self.module("talks", "for number in range(20000): print('line', number)\n")
        result = self.ddprun("--preload=talks", "--nproc-per-node=2", self.script("import talks\n"))
        self.assertEqual((len(result.lines), result.err), (40000, ""))

    def test_a_long_command_line_and_many_workers(self):
        words = ["x" * 1000] * 150
        script = self.script("import sys, counted\nprint(len(sys.argv), sum(map(len, sys.argv[1:])))\n")
        result = self.ddprun("--preload=counted", "--nproc-per-node=40", "--fold=off", script, *words)
        self.assertEqual((result.lines, result.problems), (["151 150000"] * 40, []))

    def test_no_compiled_file_of_ours_is_left(self):
        folder = self.folder / "compiled"
        self.ddprun("--preload=counted", self.script("import counted\n"), PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(folder))
        ours = [path for path in folder.rglob("sitecustomize*.pyc") if path.parent.name == "preload"]  # Debian has its own
        self.assertEqual(ours, [])
        self.assertNotEqual([path.name for path in folder.rglob("counted*.pyc")], [])

    def test_the_users_own_sitecustomize_runs_in_every_worker_as_without_it(self):
        self.module("sitecustomize", "import sys\nsys.own = 'mine'\n")
        result = self.ddprun("--preload=counted", self.script("import sys, sitecustomize\nprint(sys.own, sitecustomize.__file__)\n"))
        self.assertEqual(result.lines, [f"mine {self.modules}/sitecustomize.py"])

    def test_a_program_that_forks_and_spawns_works_in_a_preloaded_worker(self):
        script = self.script("""import multiprocessing, os, counted
def work(n): return n * n
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool: print(method, pool.map(work, [1, 2, 3]))
""")
        result = self.ddprun("--preload=counted,multiprocessing.pool", script)
        self.assertEqual(result.lines, [f"{method} [1, 4, 9]" for method in ("fork", "forkserver", "spawn")])


class Auto(PreloadTest):
    def had(self, text, *words, name="script.py"):
        """Which of the modules a worker had before its program began."""
        self.module("other", "")
        first = "from sys import modules\nHAD = {**modules}\n"
        tell = "print(sorted({'counted', 'other', 'own', 'colorsys'} & {*HAD}))\n"
        return self.ddprun("--preload=auto", *words, self.script(first + text + tell, name))

    def test_the_imports_at_the_top_of_the_script(self):
        result = self.had("import counted as c, os.path\nfrom colorsys import hsv_to_rgb\nif True:\n    import other\n")
        self.assertEqual(result.lines, ["['colorsys', 'counted']"])

    def test_modules_beside_the_script_are_read_and_left_to_the_workers(self):
        (self.folder / "own.py").write_text("import counted\n")
        self.assertEqual(self.had("import own\nimport colorsys\n").lines, ["['colorsys', 'counted']"])

    def test_a_module_of_a_package(self):
        package = self.folder / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "main.py").write_text("import sys\nHAD = {**sys.modules}\nimport counted\nfrom . import part\n"
                                         "print('counted' in HAD, __package__)\n")
        (package / "part.py").write_text("")
        self.assertEqual(self.ddprun("--preload=auto", "-m", "package.main").lines, ["True package"])

    def test_a_program_without_imports_is_told_what_to_type(self):
        result = self.ddprun("--preload=auto", self.script("print('ran')\n"))
        self.assertEqual(result.lines, ["ran"])
        self.assertEqual(len(result.problems), 1, result)
        self.assertEqual(result.problems[0], "the program begins with no import of an installed module; name the modules: --preload=torch")

    def test_imports_of_the_programs_own_modules_are_found_without_running_them(self):
        package = self.folder / "own"
        package.mkdir()
        (package / "__init__.py").write_text("from . import trainer\n")
        (package / "trainer.py").write_text("import sys\nfrom .models import net\nimport colorsys\nprint('trainer runs')\n")
        (package / "models").mkdir()
        (package / "models" / "__init__.py").write_text("")
        (package / "models" / "net.py").write_text("import counted\n")
        result = self.had("from own import trainer\n")
        self.assertEqual(result.lines, ["['colorsys', 'counted']", "trainer runs"])

    def test_the_imports_of_a_file_under_run_path(self):
        self.assertEqual(self.had("import counted\n", "--run-path").lines, ["['counted']"])

    def test_imports_behind_something_that_they_may_see_are_left_to_the_workers(self):
        for statement in ("os.environ['X'] = '1'", "sys.path.insert(0, 'x')", "warnings.filterwarnings('ignore')",
                          "for n in range(3): pass", "os.environ.setdefault('X', '1')", "sys.flag = True"):
            with self.subTest(statement):
                result = self.had_behind(statement)
                self.assertEqual(result.lines, ["['colorsys']"])
                self.assertRegex(result.err, r"a part is left to the workers \(--preload\): script.py does something else in line 3, before "
                                             r"it imports counted; if that does not matter to the import, name it: --preload=counted")

    def test_definitions_constants_and_loggers_end_nothing(self):
        for statement in ("log = logging.getLogger(__name__)", "RATE = 3 * 4", "def f(x): os.environ['X'] = x",
                          "class A:\n    rate: int = 3", "'text'", "if 3 > 4: import nothing", "try:\n    import json\nexcept OSError: pass"):
            with self.subTest(statement):
                result = self.had_behind(statement)
                self.assertEqual((result.lines, result.err), (["['colorsys', 'counted']"], ""))

    def had_behind(self, statement):
        tell = "print(sorted({'counted', 'colorsys'} & {*HAD}))\n"
        return self.ddprun("--preload=auto", self.script("import os, sys, logging, warnings, colorsys\nHAD = {**sys.modules}\n"
                                                        f"{statement}\nimport counted\n{tell}"))

    def test_what_cannot_be_imported_here_is_left_out_and_the_rest_is_not(self):
        self.module("starts", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), name='sender', daemon=True).start()\n")
        result = self.had("import starts\nimport counted\ntry:\n    import absent\nexcept ImportError: pass\n")
        self.assertEqual(result.lines, ["['counted']"])
        self.assertEqual(result.err, "ddprun: every worker imports starts for itself (--preload): importing starts starts a thread "
                                     "(sender), which a fork would lose\n")

    def test_a_program_with_a_mistake_fails_in_the_worker_as_without_it(self):
        result = self.ddprun("--preload=auto", self.script("import (\n"), status=1)
        self.assertIn("cannot be parsed", result.problems[0])
        self.assertIn("SyntaxError", result.err)


class Refusals(PreloadTest):
    def refused(self, module, text, *words, script=TELLS, **variables):
        """One line says why, and the workers run as without it. The line's reason."""
        if text is not None:
            self.module(module, text)
        result = self.ddprun(f"--preload={module}", "--nproc-per-node=2", *words, self.script(script), **variables)
        self.assertEqual(result.lines, ["had it not"] * 2, result)
        self.assertEqual(len(result.problems), 1, result)
        return result.problems[0]

    def test_an_unknown_module_is_named_with_the_nearest(self):
        self.assertRegex(self.refused("cuonted", None), r"there is no module cuonted for /\S+; did you mean counted\?$")

    def test_an_import_that_raises(self):
        self.assertEqual(self.refused("bad", "raise OSError('no such thing')\n"), "importing bad failed: OSError: no such thing")
        self.assertEqual(self.refused("needs", "import notthere\n"), "importing needs failed: No module named 'notthere'")
        self.assertEqual(self.refused("ends", "import sys\nsys.exit(3)\n"), "importing ends failed: SystemExit: 3")

    def test_an_import_that_ends_or_kills_the_process(self):
        self.assertEqual(self.refused("ends", "import os\nos._exit(3)\n"),
                         "the process that had imported the modules has ended (exited with code 3)")
        reason = self.refused("dies", "import os, sys\nprint('about to die', file=sys.stderr, flush=True)\nos.abort()\n")
        self.assertEqual(reason, "the process that had imported the modules has ended (killed by SIGABRT (signal 6)): about to die")

    def test_an_import_that_starts_a_thread(self):
        reason = self.refused("starts", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n")
        self.assertRegex(reason, r"importing starts starts a thread \(.+\), which a fork would lose")

    def test_an_import_that_starts_a_process(self):
        reason = self.refused("helper", "import subprocess\nhelper = subprocess.Popen(['sleep', '600'])\n")
        self.assertEqual(reason, "importing helper starts a process, which would be the child of no worker")

    def test_a_process_that_has_ended_is_no_reason(self):
        self.module("asks", "import subprocess\nanswer = subprocess.check_output(['echo', 'yes'])\n")
        result = self.ddprun("--preload=asks", self.script("import asks\nprint(asks.answer)\n"))
        self.assertEqual((result.lines, result.err), (["b'yes\\n'"], ""))

    def test_an_import_that_opens_a_file_or_moves_elsewhere(self):
        self.assertRegex(self.refused("reads", "import os\nfile = open(__file__)\n"),
                         r"importing reads leaves \S+/reads.py open, which workers would share")
        self.assertRegex(self.refused("connects", "import socket\nends = socket.socketpair()\n"), r"leaves socket:\S+ open")
        self.assertEqual(self.refused("moves", "import os\nos.chdir('/')\n"),
                         "importing moves changes the working directory")
        self.assertEqual(self.refused("fronts", "import sys\nsys.path.insert(0, '/usr')\n"),
                         "importing fronts puts /usr in front of the program's own folder")

    def test_a_log_that_is_appended_to_is_no_reason(self):
        self.module("logs", "import os\nlog = open(os.environ['COUNT'], 'a')\n")
        self.ddprun("--preload=logs", "--nproc-per-node=2", self.script("import logs\nlogs.log.write('line\\n')\n"))
        self.assertEqual(len(self.count.read_text().splitlines()), 2)

    def test_threads_that_their_library_ends_before_a_fork_are_no_reason(self):
        self.module("keeps", """import os, threading
end = threading.Event()
thread = threading.Thread(target=end.wait, daemon=True)
thread.start()
def before():
    end.set()
    thread.join()
os.register_at_fork(before=before)
""")
        result = self.ddprun("--preload=keeps", self.script("import keeps\nprint(keeps.thread.is_alive())\n"))
        self.assertEqual((result.lines, result.err), (["False"], ""))

    def test_a_module_that_has_changed_between_rounds_runs_as_it_is_now(self):
        self.module("changes", "text = 'old'\n")
        script = self.script(f"""import os, sys, changes
print(changes.text)
if changes.text == "old":
    open({str(self.modules / "changes.py")!r}, "w").write("text = 'newer'\\n")
    sys.exit(1)
""")
        result = self.ddprun("--preload=changes", "--max-restarts=1", "--restart-delay=0", script)
        self.assertEqual(result.lines, ["newer", "old"])
        self.assertEqual(result.problems, [f"{self.modules}/changes.py has changed since it was imported"])

    def test_a_script_that_has_changed_between_rounds_runs_as_it_is_now(self):
        path = self.folder / "script.py"
        script = self.script(f"""import sys, counted
print("old")
open({str(path)!r}, "w").write("import sys\\nprint('newer', 'counted' in sys.modules)\\n")
sys.exit(1)
""")
        result = self.ddprun("--preload=counted", "--max-restarts=1", "--restart-delay=0", script)
        self.assertEqual((result.lines, result.problems), (["newer True", "old"], []))

    def test_options_of_python_that_keep_it_from_our_file(self):
        script = self.script("import os\nwith open(os.environ['COUNT'], 'a') as file: file.write('0\\n')\n")
        for option in ("-I", "-E", "-S", "-sE"):
            with self.subTest(option):
                self.count.unlink(missing_ok=True)
                result = self.ddprun("--preload=json", "--nproc-per-node=2", sys.executable, option, script)
                self.assertRegex(result.problems[0], "does not run sitecustomize from PYTHONPATH")
                self.assertEqual(len(self.imports()), 2, "only the two workers ran it")

    def test_a_wrapper_that_runs_python_as_a_child(self):
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\n{sys.executable} "$@"\n')
        python.chmod(0o755)
        reason = self.refused("counted", None, PYTHON_EXEC=str(python))
        self.assertEqual(reason, f"{python} runs Python as a child; name the Python itself (PYTHON_EXEC)")

    def test_the_users_own_sitecustomize_that_fails(self):
        self.module("sitecustomize", "raise OSError('no such thing')\n")
        for _ in range(5):
            script = self.script("import os\nwith open(os.environ['COUNT'], 'a') as file: file.write('0\\n')\n")
            self.count.unlink(missing_ok=True)
            result = self.ddprun("--preload=json", "--nproc-per-node=2", script)
            self.assertEqual(result.problems, ["this Python's own sitecustomize fails: OSError: no such thing"])
            self.assertEqual(len(self.imports()), 2, "only the two workers ran it")

    def test_a_long_reason_is_cut(self):
        reason = self.refused("bad", "raise OSError('x' * 300000)\n")
        self.assertRegex(reason, "^importing bad failed: OSError: x{3000,4000}$")

    def test_variables_that_libraries_read_when_they_start(self):
        self.module("sets", "import os\nos.environ['OMP_NUM_THREADS'] = '3'\n")
        result = self.ddprun("--preload=sets", self.script("import os, sets\nprint(os.environ['OMP_NUM_THREADS'])\n"))
        self.assertEqual((result.lines, result.problems), (["3"], []))

    def test_an_import_that_looks_for_what_only_workers_have(self):
        for text in ("os.environ.get('RANK')", "'LOCAL_RANK' in os.environ", "os.getenv('WORLD_SIZE', '1')", "os.environ.setdefault('MASTER_PORT', '1')"):
            reason = self.refused("looks", f"import os\nvalue = {text}\n")
            self.assertRegex(reason, "^importing looks looks for [A-Z_]+, which only workers have$")

    def test_the_program_itself(self):
        result = self.ddprun("--preload=script", "--nproc-per-node=2", self.script(TELLS))
        self.assertEqual(result.problems, ["script is the program itself; --preload=auto takes its imports"])
        self.assertEqual(result.lines, ["had it not"] * 2)

    def test_none_takes_back_what_stands_before_it(self):
        result = self.ddprun("--preload=counted", "--preload=none", self.script(TELLS))
        self.assertEqual((result.lines, result.err), (["had it not"], ""))

    def test_a_python_that_does_not_run_our_file(self):
        python = self.folder / "python"
        python.write_text('#!/bin/sh\nunset PYTHONPATH\nexec /usr/bin/env python3 -E "$@"\n')
        python.chmod(0o755)
        script = "import sys\nprint('had it not')\n"
        reason = self.refused("counted", None, script=script, PYTHON_EXEC=str(python))
        self.assertEqual(reason, f"{python} does not run sitecustomize from PYTHONPATH")

    def test_names_that_are_none_and_programs_that_are_no_python(self):
        for words, told in ((["--preload=a b", "x.py"], "'a b' is no name of a Python module"),
                            (["--preload=torch,,json", "x.py"], "is no name of a Python module"),
                            (["--preload=train.py", "x.py"], "use --preload=auto"), (["--preload=yes", "x.py"], "use --preload=auto"),
                            (["--preload=", "x.py"], "is no name of a Python module"),
                            (["--preload=torch", "/bin/true"], "is not run by Python")):
            with self.subTest(words=words):
                self.assertIn(told, self.ddprun(*words, status=2).err)


class Ends(PreloadTest):
    """A job that ends while modules are imported, and an importing process that ends."""

    def test_a_signal_while_modules_are_imported_ends_the_job_at_once(self):
        self.module("slow", "import counted, time\ntime.sleep(600)\n")
        process = self.start("--preload=slow", self.script(TELLS))
        self.assertTrue(eventually(self.imports))
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        result = self.wait(process)
        self.assertEqual((result.status, result.out), (143, ""), result)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(self.processes(), [])

    def test_a_user_who_waits_for_imports_is_told(self):
        self.module("slow", "import time\ntime.sleep(10.5)\n")
        result = self.ddprun("--preload=slow", self.script("print('ran')\n"))
        self.assertIn("importing modules once for all workers (--preload): 10.0 s so far", result.err)
        self.assertEqual((result.lines, result.problems), (["ran"], []))

    def test_a_job_outlives_the_importing_process(self):
        script = self.script(TELLS + """import os, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    open("runs" + os.environ["RANK"], "w").close()
    while not os.path.exists("killed"): time.sleep(0.01)
    sys.exit(1)
""")
        process = self.start("--preload=counted", "--nproc-per-node=2", "--max-restarts=1", "--restart-delay=0", script)
        self.assertTrue(eventually(lambda: all((self.folder / f"runs{rank}").exists() for rank in (0, 1))))
        os.kill(self.imports()[0], signal.SIGKILL)
        self.assertTrue(eventually(lambda: not text_of(f"/proc/{self.imports()[0]}/environ")))
        (self.folder / "killed").touch()
        result = self.wait(process)
        self.assertEqual((result.status, result.problems), 
                         (0, ["the process that had imported the modules has ended (killed by SIGKILL (signal 9))"]), result)
        self.assertEqual(result.lines.count("had it not"), 2)
        self.assertEqual(self.processes(), [])

    def test_the_importing_process_is_no_leftover_of_a_round(self):
        script = self.script(TELLS + """import os, subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True)
sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] < "2")
""")
        result = self.ddprun("--preload=counted", "--max-restarts=2", "--restart-delay=0", "--kill-timeout=1", script)
        self.assertEqual((result.lines, result.problems), (["had it"] * 3, []), result)

    def test_an_importing_process_that_is_stopped_holds_up_a_round_for_seconds_only(self):
        script = self.script(TELLS + """import os, signal, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.kill(int(open(os.environ["COUNT"]).read()), signal.SIGSTOP)
    sys.exit(1)
""")
        result = self.ddprun("--preload=counted", "--max-restarts=1", "--restart-delay=0", script)
        self.assertEqual(result.problems, ["no worker was forked within 10.0 s"], result)
        self.assertEqual(result.lines, ["had it", "had it not"])

    def test_a_signal_while_workers_are_forked_ends_the_job_without_waiting_for_them(self):
        script = self.script(TELLS + """import os, signal
os.kill(int(open(os.environ["COUNT"]).read()), signal.SIGSTOP)
sys.exit(1)
""")
        process = self.start("--preload=counted", "--max-restarts=1", "--restart-delay=0", script)
        self.assertTrue(eventually(lambda: self.imports() and b"\nState:\tT" in text_of(f"/proc/{self.imports()[0]}/status")))
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        result = self.wait(process)
        self.assertEqual((result.status, result.problems), (143, []), result)
        self.assertEqual(self.processes(), [])

    def test_descriptors_of_a_program_that_imports_start_are_its_own(self):
        self.module("starts", """import os, subprocess
subprocess.run(["sh", "-c", "ls -l /proc/self/fd > " + os.environ["COUNT"]], close_fds=False)
""")
        self.ddprun("--preload=starts", self.script("print()\n"))
        listed = pathlib.Path(self.count).read_text()
        self.assertNotIn("socket:", listed)
