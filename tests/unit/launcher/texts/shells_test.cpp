// The generated scripts and the manual page, given to the programs they are made for. A shell that
// is not installed is a visible skip.
#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "launcher/texts/texts.hpp"
#include "tests/integration/launcher/on_terminal.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"
#include "texts/program_text.hpp"

using namespace ddprun::launcher;

namespace {

struct Ran {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
};

/// Runs a shell command in the folder; after 20 s it is ended and the exit code is 124.
Ran run(const ddprun::test::TempDir& dir, const std::string& command) {
  const std::string line = "cd '" + dir.path().string() + "' && timeout 20 " + command + " 2>&1";
  Ran ran;
  FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> bytes;
  for (std::size_t count = 0; (count = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) {
    ran.output.append(bytes.data(), count);
  }
  const int status = ::pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return ran;
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

void need(const ddprun::test::TempDir& dir, const std::string& program) {
  if (run(dir, program + " --version").exit_code != 0)
    ddprun::test::skip(program + " is not installed");
}

/// What bash would offer for these words; the last one is being typed. Bash takes --a=b apart at
/// the equals sign.
std::string bash_offers(const ddprun::test::TempDir& dir, const std::string& words,
                        const std::string& program = "ddprun",
                        const std::string& script = completion_script("bash")) {
  write(dir / "script.bash", script);
  write(dir / "ask.bash", "source ./script.bash\ncompopt() { :; }\nCOMP_WORDS=(" + words +
                              ")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_ddprun_" + program +
                              "\necho \"${COMPREPLY[*]}\"\n");
  return run(dir, "bash ./ask.bash").output;
}

}  // namespace

TEST_CASE("bash completes options, their values, PROGRAM and files in their places") {
  const ddprun::test::TempDir dir;
  need(dir, "bash");
  write(dir / "zdata.txt", "");
  CHECK(bash_offers(dir, "ddprun --outp") == "--output=\n");
  CHECK(bash_offers(dir, "ddprun --gpu_vis") == "--gpu-visibility=\n");
  CHECK(bash_offers(dir, "ddprun --output = p") == "prefix pty pipe\n");
  CHECK(bash_offers(dir, "ddprun --output =") == "prefix raw pty pipe\n");
  CHECK(bash_offers(dir, "ddprun --output p") == "prefix pty pipe\n");
  CHECK(bash_offers(dir, "ddprun --dry-run = j") == "json\n");
  CHECK(bash_offers(dir, "ddprun --help = stre") == "streams\n");
  CHECK(bash_offers(dir, "ddprun --help = max-r") == "max-restarts\n");
  CHECK(bash_offers(dir, "ddprun --nproc-per-node = 2 -m --max-r") == "--max-restarts=\n");
  CHECK(bash_offers(dir, "ddprun --dry-run --max-r") == "--max-restarts=\n");
  std::filesystem::create_directory(dir / "logs");
  CHECK(bash_offers(dir, "ddprun --log_dir = l") == "logs\n");
  CHECK(bash_offers(dir, "ddprun --report zd") == "zdata.txt\n");
  CHECK(bash_offers(dir, "ddprun --rank-filter ''") == "\n");
  CHECK(bash_offers(dir, "ddprun trai").starts_with("train"));
  CHECK(bash_offers(dir, "ddprun -- trai").starts_with("train"));
  CHECK(bash_offers(dir, "ddprun train --outp") == "\n");
  CHECK(bash_offers(dir, "ddprun --output raw train zd") == "zdata.txt\n");
  CHECK(bash_offers(dir, "ddprun __main__.py zd") == "zdata.txt\n");
  CHECK(bash_offers(dir, "ddprun -- train zd") == "zdata.txt\n");
}

TEST_CASE("bash completes a program without PROGRAM by the word before, wherever the line begins") {
  const ddprun::test::TempDir dir;
  need(dir, "bash");
  std::filesystem::create_directory(dir / "data");
  const ddprun::ProgramText cook{.name = "cook",
                                 .options = {{.names = {"--heat"}, .choices = {"low", "high"}},
                                             {.names = {"--pot-size"}, .placeholder = "N"},
                                             {.names = {"--recipes"}, .placeholder = "DIR"},
                                             {.names = {"--quiet"}}}};
  const auto offers = [&](const std::string& words) {
    return bash_offers(dir, words, "cook", completion(cook, "bash"));
  };
  CHECK(offers("cook ''") == "--heat= --pot-size= --recipes= --quiet\n");
  CHECK(offers("cook --pot_s") == "--pot-size=\n");
  CHECK(offers("ddprun -m 3 cook --quiet --heat l") == "low\n");
  CHECK(offers("cook --heat =") == "low high\n");
  CHECK(offers("cook --heat = h") == "high\n");
  CHECK(offers("cook --pot-size ''") == "\n");
  CHECK(offers("cook --recipes = d") == "data\n");
}

TEST_CASE("bash hands over to the completion of the bundled trainer behind it") {
  const ddprun::test::TempDir dir;
  need(dir, "bash");
  write(dir / "ddprun.bash", completion_script("bash"));
  write(dir / "ask.bash",
        "source ./ddprun.bash\ncompopt() { :; }\n"
        "_ddprun_train() { COMPREPLY=(\"asked for ${COMP_WORDS[COMP_CWORD]}\"); }\n"
        "ask() { COMP_WORDS=(\"$@\"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _ddprun_ddprun; "
        "echo \"${COMPREPLY[*]}\"; }\n"
        "ask ddprun --nproc-per-node = 2 train --ep\nask ddprun other.py --ep\n");
  CHECK(run(dir, "bash ./ask.bash").output == "asked for --ep\n\n");
}

namespace {

/// A program of ours that is started by ddprun, with a name that others have, too.
const ddprun::ProgramText kTrain{.name = "train",
                                 .page = "ddprun-train",
                                 .options = {{.names = {"--epochs"}, .placeholder = "N"},
                                             {.names = {"--best"}, .choices = {"loss", "f1"}}},
                                 .launcher = "ddprun"};

/// `train` in the folder bin, where ddprun is beside it if it is ours.
/// If it is not ours, then that of another package, alone or beside an installed ddprun.
void make_train(const ddprun::test::TempDir& dir, bool is_ours, bool is_alone = false) {
  std::vector<std::string> programs{"bin/train"};
  if (!is_alone) programs.push_back("bin/ddprun");
  if (!is_alone && !is_ours) programs.push_back("libexec/ddprun/train");
  for (const std::string& name : programs) {
    std::filesystem::create_directories((dir / name).parent_path());
    write(dir / name, "#!/bin/sh\n");
    std::filesystem::permissions(dir / name, std::filesystem::perms::owner_all);
  }
}

}  // namespace

TEST_CASE("bash loads the completion of the bundled trainer by a name that no other program has") {
  const ddprun::test::TempDir dir;
  need(dir, "bash");
  write(dir / "ddprun.bash", completion_script("bash"));
  write(dir / "ddprun-train", completion(kTrain, "bash"));
  write(dir / "ask.bash",
        "source ./ddprun.bash\ncompopt() { :; }\n_comp_load() { source ./$1; }\n"
        "COMP_WORDS=(ddprun train --ep) COMP_CWORD=2\n_ddprun_ddprun\necho \"${COMPREPLY[*]}\"\n");
  CHECK(run(dir, "bash ./ask.bash").output == "--epochs=\n");
}

TEST_CASE("bash completes a program by a name that others have only beside its launcher") {
  const bool is_ours = GENERATE(true, false);
  CAPTURE(is_ours);
  const ddprun::test::TempDir dir;
  need(dir, "bash");
  make_train(dir, is_ours, !is_ours && GENERATE(true, false));
  write(dir / "ask.bash", completion(kTrain, "bash") + "complete -p train\n");
  const Ran ran = run(dir, "env PATH=$PWD/bin:$PATH bash ./ask.bash");
  CHECK((ran.output == "complete -F _ddprun_train train\n") == is_ours);
}

TEST_CASE("zsh reads its completion scripts, and that of train is for no command by itself") {
  const ddprun::test::TempDir dir;
  need(dir, "zsh");
  write(dir / "_ddprun", completion_script("zsh"));
  write(dir / "_ddprun-train", completion(kTrain, "zsh"));
  for (const std::string name : {"_ddprun", "_ddprun-train"}) {
    const Ran ran = run(dir, "zsh -n ./" + name);
    CHECK(ran.exit_code == 0);
    CHECK(ran.output.empty());
  }
  write(dir / "ask.zsh",
        "fpath=($PWD $fpath)\nautoload -Uz compinit && compinit -u -d ./dump\n"
        "echo ${_comps[ddprun]} ${_comps[train]:-none} $+functions[_ddprun-train]\n");
  CHECK(run(dir, "zsh -f ./ask.zsh").output == "_ddprun none 1\n");
}

TEST_CASE("zsh completes the options of the bundled trainer behind ddprun") {
  const ddprun::test::TempDir dir;
  need(dir, "zsh");
  write(dir / "_ddprun", completion_script("zsh"));
  write(dir / "_ddprun-train", completion(kTrain, "zsh"));
  ddprun::test::OnTerminal shell({"env", "TERM=dumb", "zsh", "-f"}, "");
  shell.type("PS1=; cd " + dir.path().string() +
             "; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d ./dump; ddprun() echo "
             "got: $@; echo lo''aded\n");
  REQUIRE(shell.wait_for("loaded\r\n"));
  for (const auto& [typed, line] : std::map<std::string, std::string>{
           {"train --ep\t3", "train --epochs=3"}, {"--help=stre\t", "--help=streams"}}) {
    shell.shown.clear();
    shell.type("ddprun " + typed + "\n");
    INFO(shell.shown);
    CHECK(shell.wait_for("got: " + line));
  }
  shell.type("exit\n");
  CHECK(shell.wait() == 0);
}

TEST_CASE("fish completes options, their values and PROGRAM in their places") {
  const ddprun::test::TempDir dir;
  need(dir, "fish");
  write(dir / "ddprun.fish", completion_script("fish"));
  const auto offers = [&](const std::string& line) {
    return run(dir, "fish --no-config -c \"source ./ddprun.fish; complete -C '" + line + "'\"")
        .output;
  };
  CHECK(offers("ddprun --outp").starts_with("--output\t"));
  CHECK(offers("ddprun --output=pt").starts_with("--output=pty\t"));
  CHECK(offers("ddprun --output pt").starts_with("pty\t"));
  CHECK(offers("ddprun --nproc-per-node 2 trai").starts_with("train"));
  CHECK(offers("ddprun train --outp").empty());
  CHECK(offers("ddprun --help=stre").starts_with("--help=streams\t"));
}

TEST_CASE("fish completes train behind ddprun, and alone only beside it") {
  const bool is_ours = GENERATE(true, false);
  CAPTURE(is_ours);
  const ddprun::test::TempDir dir;
  need(dir, "fish");
  make_train(dir, is_ours);
  write(dir / "ddprun.fish", completion_script("fish"));
  write(dir / "ddprun-train.fish", completion(kTrain, "fish"));
  const auto offers = [&](const std::string& line) {
    return run(dir,
               "env PATH=$PWD/bin:$PATH fish --no-config -c \"set fish_complete_path .; source "
               "./ddprun.fish; complete -C '" +
                   line + "'\"")
        .output;
  };
  CHECK(offers("ddprun train --ep").starts_with("--epochs"));
  CHECK(offers("ddprun --max-restarts 3 train --best f") == "f1\n");
  CHECK(offers("ddprun other --ep").empty());
  CHECK(offers("train --ep").starts_with("--epochs") == is_ours);
}

TEST_CASE("tcsh completes options, their values and files in their places") {
  const ddprun::test::TempDir dir;
  need(dir, "tcsh");
  write(dir / "zdata.txt", "");
  std::filesystem::create_directory(dir / "logs");
  write(dir / "ddprun.tcsh", completion_script("tcsh"));
  ddprun::test::OnTerminal shell({"env", "TERM=dumb", "tcsh", "-f"}, "");
  shell.type("set prompt = '' edit; cd " + dir.path().string() +
             "; alias ddprun 'echo got:'; source ddprun.tcsh; echo lo''aded\n");
  REQUIRE(shell.wait_for("loaded\r\n"));
  const auto completes = [&](const std::string& typed, const std::string& line) {
    shell.shown.clear();
    shell.type("ddprun " + typed + "\t\n");
    shell.wait_for("got: ");
    INFO(shell.shown);
    CHECK(shell.wait_for("got: " + line + "\r\n"));
  };
  completes("--outp", "--output");
  completes("--output=pt", "--output=pty");
  completes("--output pt", "--output pty");
  completes("--output=raw zd", "--output=raw zdata.txt");
  completes("--dry-run=j", "--dry-run=json");
  completes("--dry-run zd", "--dry-run zdata.txt");
  completes("--log_dir=lo", "--log_dir=logs/");
  completes("--log-dir lo", "--log-dir logs/");
  completes("--report=zd", "--report=zdata.txt");
  completes("--max-restarts z", "--max-restarts z");
  completes("-r 3 zd", "-r 3 zdata.txt");
  completes("train zd", "train zdata.txt");
  completes("--help=stre", "--help=streams");
  shell.type("exit\n");
  CHECK(shell.wait() == 0);
}

TEST_CASE("tcsh completes train only beside ddprun") {
  const bool is_ours = GENERATE(true, false);
  CAPTURE(is_ours);
  const ddprun::test::TempDir dir;
  need(dir, "tcsh");
  make_train(dir, is_ours);
  write(dir / "train.tcsh", completion(kTrain, "tcsh") + "complete\n");
  const Ran ran = run(dir, "env PATH=$PWD/bin:$PATH tcsh -f ./train.tcsh");
  CHECK(ran.exit_code == 0);
  CHECK((ran.output.find("--epochs") != std::string::npos) == is_ours);
  CHECK(run(dir, "env PATH=/bin tcsh -f ./train.tcsh").exit_code == 0);  // with no train at all
}

TEST_CASE("groff formats the manual page without a warning") {
  const ddprun::test::TempDir dir;
  need(dir, "groff");
  write(dir / "ddprun.1", man_page());
  const Ran warnings = run(dir, "groff -man -Tutf8 -ww -z ddprun.1");
  CHECK(warnings.exit_code == 0);
  CHECK(warnings.output.empty());
  const Ran page = run(dir, "groff -man -Tascii -P-c -P-b -P-u ddprun.1");
  CHECK(page.output.find("--nproc-per-node, --nproc_per_node=N|auto|cpu|gpu") != std::string::npos);
}
