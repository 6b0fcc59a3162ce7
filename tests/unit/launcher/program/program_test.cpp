#include "launcher/program/program.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "launcher/program/run_path.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/launcher/program/asked_programs.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using namespace ddprun::launcher::test;
using Kind = ProgramChoice::Kind;
using Words = std::vector<std::string>;

TEST_CASE("under --run-path any file runs under Python, by a program that ends as torchrun's") {
  Asked asked("data/train");
  asked.python = true;
  const auto choice = chosen(asked, files_of_a_machine().text("data/train", "print(1)\n"));
  CHECK(choice.kind == Kind::python_script);
  CHECK(choice.argv ==
        Words{"/usr/bin/python3", "-u", "-c", kRunPathProgram, "data/train", "--x", "1"});
  CHECK(substitute_local_rank(kRunPathProgram, 3) == kRunPathProgram);
}

TEST_CASE("an executable file named with a slash is executed itself") {
  const auto choice = chosen(Asked("./a.out"), files_of_a_machine().program("a.out"));
  CHECK(choice.kind == Kind::file);
  CHECK(choice.file == "./a.out");
  CHECK(choice.argv == Words{"./a.out", "--x", "1"});
  CHECK(choice.python.empty());
}

TEST_CASE("a Python file named with a slash runs under Python, executable or not") {
  for (const std::string name : {"dir/t.py", "dir/t.pyc", "dir/t.pyz"}) {
    for (const auto& files :
         {files_of_a_machine().text(name), files_of_a_machine().program(name)}) {
      const auto choice = chosen(Asked(name), files);
      CHECK(choice.kind == Kind::python_script);
      CHECK(choice.file == "/usr/bin/python3");
      CHECK(choice.python == "/usr/bin/python3");
      CHECK(choice.argv == Words{"/usr/bin/python3", "-u", name, "--x", "1"});
    }
  }
}

TEST_CASE("a file without the executable bit runs under Python as for torchrun") {
  CHECK(chosen(Asked("./script"), files_of_a_machine().text("script")).kind == Kind::python_script);
  CHECK(chosen(Asked("./script"), files_of_a_machine().text("script", "#!/usr/bin/env python3\n"))
            .kind == Kind::python_script);
  CHECK(chosen(Asked("./script"), files_of_a_machine().text("script", "")).kind ==
        Kind::python_script);
  CHECK(chosen(Asked("script"), files_of_a_machine().text("script")).kind == Kind::python_script);
}

TEST_CASE(
    "a program or a foreign script without the executable bit is refused with chmod as the "
    "remedy") {
  const std::string elf = std::string("\x7f") + "ELF\x02\x01";
  for (const auto& bytes : {elf, std::string("#!/bin/sh\n# python\n")}) {
    for (const std::string name : {"./tool", "tool"}) {
      const auto error = refused_program(Asked(name), files_of_a_machine().text("tool", bytes));
      CHECK(error.exit_code == 126);
      CHECK_THAT(error.message, Contains("chmod +x ./tool"));
    }
  }
}

TEST_CASE("a shell script by its name is not run by Python") {
  for (const std::string name : {"./run.sh", "run.sh"}) {
    const auto error =
        refused_program(Asked(name), files_of_a_machine().text("run.sh", "echo hi\n"));
    CHECK(error.exit_code == 126);
    CHECK(error.message ==
          "./run.sh is a shell script that is not executable: type ddprun ... sh " + name + " ...");
  }
}

TEST_CASE("the first word of another launcher's command is to be left out") {
  const auto error = refused_program(Asked("launch"), files_of_a_machine());
  CHECK(error.exit_code == 127);
  CHECK_THAT(error.message, StartsWith("launch: not found; leave the word out: ddprun [OPTIONS]") &&
                                Contains("docs/torchrun.md"));
}

TEST_CASE("a command of other programs that is not found is answered with the option to type") {
  const auto told = [](const std::string& word) {
    return refused_program(Asked(word), files_of_a_machine()).message;
  };
  CHECK_THAT(told("help"), StartsWith("help: not found; ddprun --help shows"));
  CHECK(told("version") == "version: not found; did you mean ddprun --version?");
  CHECK_THAT(told("accelerate"), Contains("docs/torchrun.md"));
  CHECK(chosen(Asked("help"), files_of_a_machine().program("/usr/bin/help")).kind == Kind::path);
  CHECK(chosen(Asked("help"), files_of_a_machine().text("help")).kind == Kind::python_script);
}

TEST_CASE("with --no-python a file without the executable bit is refused") {
  for (const std::string name : {"./t.py", "./script", "script"}) {
    const auto error = refused_program(Asked(name).without_python(),
                                       files_of_a_machine().text("t.py").text("script"));
    CHECK(error.exit_code == 126);
    CHECK_THAT(error.message, Contains("chmod +x"));
  }
}

TEST_CASE("with --no-python an executable Python file is executed itself") {
  const auto choice =
      chosen(Asked("./t.py").without_python(), files_of_a_machine().program("t.py"));
  CHECK(choice.kind == Kind::file);
  CHECK(choice.argv == Words{"./t.py", "--x", "1"});
}

TEST_CASE("a bare name is a bundled program first, in libexec or beside ddprun") {
  auto files =
      files_of_a_machine().program("/opt/ddprun/bin/train").text("train").program("/usr/bin/train");
  CHECK(chosen(Asked("train"), files).kind == Kind::bundled);
  CHECK(chosen(Asked("train"), files).file == "/opt/ddprun/bin/train");
  CHECK(chosen(Asked("train"), files).argv == Words{"train", "--x", "1"});
  files.program("/opt/ddprun/libexec/ddprun/train");
  CHECK(chosen(Asked("train"), files).file == "/opt/ddprun/libexec/ddprun/train");
  CHECK(chosen(Asked("train").without_python(), files).kind == Kind::bundled);
}

TEST_CASE("a missing bundled program is an incomplete installation, reported with the folders") {
  const auto error = refused_program(Asked("train"), files_of_a_machine());
  CHECK(error.exit_code == 127);
#ifdef DDPRUN_WITHOUT_TRAIN
  CHECK_THAT(error.message, Contains("without the trainer; build it from a checkout"));
#else
  CHECK_THAT(error.message, Contains("/opt/ddprun/libexec/ddprun nor in /opt/ddprun/bin; install"));
#endif
}

TEST_CASE("only programs that come with ddprun are looked for beside it") {
  CHECK(refused_program(Asked("other"), files_of_a_machine().program("/opt/ddprun/bin/other"))
            .exit_code == 127);
}

TEST_CASE("a folder beside ddprun with the name of a bundled program is not taken for it") {
  CHECK(refused_program(Asked("train"), files_of_a_machine().folder("/opt/ddprun/bin/train"))
            .exit_code == 127);
}

TEST_CASE(
    "a bare Python file in the current folder runs under Python, executable or not, before PATH") {
  CHECK(chosen(Asked("t.py"), files_of_a_machine().text("t.py")).kind == Kind::python_script);
  CHECK(chosen(Asked("t.py"), files_of_a_machine().program("t.py").program("/usr/bin/t.py")).kind ==
        Kind::python_script);
}

TEST_CASE(
    "a file that is not executable in the current folder wins over PATH, a foreign one does not") {
  CHECK(chosen(Asked("ls"), files_of_a_machine().text("ls")).kind == Kind::python_script);
  CHECK(chosen(Asked("ls"), files_of_a_machine().text("ls", "#!/bin/sh\n")).file == "/bin/ls");
  CHECK(chosen(Asked("ls").without_python(), files_of_a_machine().text("ls")).file == "/bin/ls");
}

TEST_CASE("a bare name is found on PATH and keeps its name as argv 0") {
  const auto choice = chosen(Asked("ls"), files_of_a_machine());
  CHECK(choice.kind == Kind::path);
  CHECK(choice.file == "/bin/ls");
  CHECK(choice.argv.front() == "ls");
}

TEST_CASE("folders and files without the executable bit on PATH are passed over") {
  const auto files = files_of_a_machine().folder("/usr/bin/tool").program("/bin/tool");
  CHECK(chosen(Asked("tool"), files).file == "/bin/tool");
  CHECK(refused_program(Asked("tool2"), files_of_a_machine().text("/usr/bin/tool2")).exit_code ==
        127);
}

TEST_CASE(
    "an empty entry of PATH is the current folder, and without PATH the usual folders count") {
  CHECK(
      chosen(Asked("a.out"), files_of_a_machine().program("a.out"), {{"PATH", "/usr/bin:"}}).kind ==
      Kind::path);
  CHECK(chosen(Asked("ls"), files_of_a_machine(), {}).file == "/bin/ls");
}

TEST_CASE("a folder never matches") {
  const auto error = refused_program(
      Asked("./project"), files_of_a_machine().folder("project").text("project/__main__.py"));
  CHECK(error.exit_code == 2);
  CHECK_THAT(error.message, Contains("is a folder") && Contains("__main__.py"));
  CHECK(refused_program(Asked("project"), files_of_a_machine().folder("project")).exit_code == 2);
  CHECK(chosen(Asked("ls"), files_of_a_machine().folder("ls")).file == "/bin/ls");
}

TEST_CASE("something that is neither file nor folder is refused") {
  const auto error = refused_program(Asked("/dev/null"), files_of_a_machine().device("/dev/null"));
  CHECK(error.exit_code == 126);
  CHECK_THAT(error.message, Contains("is a device, not a file: PROGRAM must be a file"));
}

TEST_CASE(
    "a bare name of an executable in the current folder is refused with the dot-slash as the "
    "remedy") {
  const auto error = refused_program(Asked("a.out"), files_of_a_machine().program("a.out"));
  CHECK(error.exit_code == 127);
  CHECK_THAT(error.message, Contains("./a.out"));
}

TEST_CASE("a name that is not found exits 127 and the nearest one is suggested") {
  CHECK_THAT(refused_program(Asked("trian"), files_of_a_machine()).message,
             Contains("did you mean train?"));
  CHECK_THAT(refused_program(Asked("tarin.py"), files_of_a_machine().text("train.py")).message,
             Contains("did you mean train.py?"));
  CHECK_THAT(
      refused_program(Asked("./dir/tarin.py"), files_of_a_machine().text("./dir/train.py")).message,
      Contains("did you mean ./dir/train.py?"));
  CHECK_THAT(refused_program(Asked("a.oud"), files_of_a_machine().program("a.out")).message,
             Contains("did you mean ./a.out?"));
  CHECK(refused_program(Asked("nothing-like-it"), files_of_a_machine()).exit_code == 127);
  CHECK(refused_program(Asked("/nothing/like/it"), files_of_a_machine()).exit_code == 127);
}

TEST_CASE("a module runs as python -u -m, whatever lies around") {
  const auto choice =
      chosen(Asked("train").as_module(), files_of_a_machine().program("/opt/ddprun/bin/train"));
  CHECK(choice.kind == Kind::python_module);
  CHECK(choice.argv == Words{"/usr/bin/python3", "-u", "-m", "train", "--x", "1"});
}

TEST_CASE("a Python file may have the local rank in its name") {
  CHECK(chosen(Asked("train_${local_rank}.py"), files_of_a_machine().text("train_0.py")).argv[2] ==
        "train_${local_rank}.py");
  CHECK(chosen(Asked("./train_$local_rank.py"), files_of_a_machine().text("train_0.py")).kind ==
        Kind::python_script);
}

TEST_CASE("the local rank macro follows Python's safe substitution") {
  CHECK(substitute_local_rank("plain", 3) == "plain");
  CHECK(substitute_local_rank("", 3).empty());
  CHECK(substitute_local_rank("${local_rank}", 3) == "3");
  CHECK(substitute_local_rank("$local_rank", 3) == "3");
  CHECK(substitute_local_rank("a${local_rank}b$local_rank-c", 12) == "a12b12-c");
  CHECK(substitute_local_rank("$local_rank2 $local_rank_x ${local_rank2}", 3) ==
        "$local_rank2 $local_rank_x ${local_rank2}");
  CHECK(substitute_local_rank("$LOCAL_RANK ${LOCAL_RANK}", 3) == "$LOCAL_RANK ${LOCAL_RANK}");
  CHECK(substitute_local_rank("$$ ${local_rank}", 3) == "$ 3");
  CHECK(substitute_local_rank("$$local_rank $$$local_rank", 3) == "$local_rank $3");
  CHECK(substitute_local_rank("$ $1 ${ ${} ${x $", 3) == "$ $1 ${ ${} ${x $");
  CHECK(substitute_local_rank("$other ${other} $xlocal_rank", 3) == "$other ${other} $xlocal_rank");
}

TEST_CASE("an argument without the macro stays as it is, with its two dollars") {
  for (const std::string text : {"$$", "echo $$", "$$ $local_rank2", "$$ ${local_rank", "a$$b$$"})
    CHECK(substitute_local_rank(text, 3) == text);
  CHECK(substitute_local_rank("$${local_rank}", 3) == "${local_rank}");
}

TEST_CASE("the real file probe tells files, folders, devices and what is executable") {
  const ddprun::test::TempDir dir;
  const RealFileProbe probe;
  std::ofstream(dir / "script") << "#!/bin/sh\nexit 0\n";
  CHECK(probe.look((dir / "script").string()).kind == FileInfo::Kind::regular);
  CHECK_FALSE(probe.look((dir / "script").string()).executable);
  CHECK(probe.look((dir / "script").string()).first_bytes == "#!/bin/sh\nexit 0\n");
  REQUIRE(::chmod((dir / "script").c_str(), 0755) == 0);
  CHECK(probe.look((dir / "script").string()).executable);
  CHECK(probe.look(dir.path().string()).kind == FileInfo::Kind::folder);
  CHECK(probe.look("/dev/null").kind == FileInfo::Kind::other);
  CHECK(probe.look((dir / "absent").string()).kind == FileInfo::Kind::absent);
  CHECK(probe.names_in(dir.path().string()) == Words{"script"});
  CHECK(probe.names_in((dir / "absent").string()).empty());
}

TEST_CASE("the obstacle on the path to PROGRAM is named") {
  auto files = files_of_a_machine();
  files.dangling("dangling.py", "gone.py").dangling("./lib/dangling.py", "gone.py").pipe("fifo.py");
  CHECK_THAT(refused_program(Asked("dangling.py"), files).message,
             Contains("dangling.py is a link to gone.py, which does not exist"));
  CHECK_THAT(refused_program(Asked("./lib/dangling.py"), files).message,
             Contains("is a link to gone.py"));
  const auto pipe = refused_program(Asked("fifo.py"), files);
  CHECK(pipe.exit_code == kExitNotExecutable);
  CHECK_THAT(pipe.message, Contains("fifo.py is a pipe, not a file"));
}

TEST_CASE("a current folder that has been deleted is the reason why nothing is found in it") {
  auto files = files_of_a_machine();
  files.deleted_folder();
  for (const char* name : {"gone.py", "./gone.py"}) {
    const auto error = refused_program(Asked(name), files);
    CHECK(error.exit_code == kExitNotFound);
    CHECK_THAT(error.message, Contains("the current folder has been deleted: cd to another one"));
  }
  CHECK_THAT(refused_program(Asked("/gone.py"), files).message, !Contains("deleted"));
}

TEST_CASE("a dash that is not the keyboard's is named with what to type") {
  for (const std::string dash : {"\u2013", "\u2014", "\u2212", "-\u2013"}) {
    const auto error = refused_program(Asked(dash + "nproc_per_node=2"), files_of_a_machine());
    CHECK(error.exit_code == kExitUsage);
    CHECK_THAT(error.message,
               StartsWith(dash + "nproc_per_node=2 begins with a dash that is not") &&
                   Contains("retype it as --nproc_per_node=2"));
  }
  CHECK_THAT(refused_program(Asked("\u00e4.py"), files_of_a_machine()).message,
             !Contains("retype"));
}
