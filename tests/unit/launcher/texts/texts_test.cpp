// Help, manual page, completion and dry run: all made from the table and the plan.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/options/option_table.hpp"
#include "launcher/options/options.hpp"
#include "launcher/plan/dry_run.hpp"
#include "launcher/texts/completion.hpp"
#include "launcher/texts/help.hpp"
#include "launcher/texts/man_page.hpp"

using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

LaunchPlan small_plan() {
  LaunchPlan plan;
  plan.options.program = "t.py";
  plan.program = {.kind = ProgramChoice::Kind::python_script,
                  .file = "/usr/bin/python3",
                  .argv = {"/usr/bin/python3", "-u", "t.py", "it's", "${local_rank}"},
                  .python = "/usr/bin/python3",
                  .reason = "a Python file by its name"};
  plan.workers.resize(2);
  plan.workers[0].cuda_visible_devices = "0,1";
  plan.workers[1].local_rank = 1;
  for (WorkerPlan& worker : plan.workers) {
    worker.standard_output.transport = StreamTransport::pty;
    worker.standard_error = {StreamTransport::pipe, true, true};
  }
  plan.devices.chosen = {"0", "1"};
  plan.devices.source = "NVML";
  plan.standard_input = StdinMode::none;
  plan.logs = {.wanted = true, .base = "/logs", .prefix_template = {}};
  plan.run_id = "id-7";
  plan.role = "default";
  plan.master_addr = "localhost";
  plan.store_host = "127.0.0.1";
  plan.notes = {"a note"};
  return plan;
}

}  // namespace

TEST_CASE("the help shows examples first, then every option of the table under its heading") {
  const std::string help = help_text();
  const auto examples_at = help.find("\nExamples\n");
  REQUIRE(examples_at != std::string::npos);
  CHECK(help.find("  ddprun --nproc-per-node=2 train\n") != std::string::npos);
  auto at = examples_at;
  for (const auto& row : option_table()) {
    INFO(row.name);
    CHECK(help.find("\n" + std::string(group_title(row.group)) + "\n") > examples_at);
    const auto found = help.find(" --" + std::string(row.name) + value_hint(row), at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
}

TEST_CASE("the help fits 80 columns and has neither colours nor trailing blanks") {
  for (const auto& line : lines_of(help_text() + short_help_text())) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
    CHECK(line.find('\x1b') == std::string::npos);
    CHECK(line.find('\t') == std::string::npos);
  }
}

namespace {

std::string one_line(const std::string& text) {
  std::string result;
  for (const auto& line : lines_of(text))
    result += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return result;
}

}  // namespace

TEST_CASE("the help names other names of an option that are accepted") {
  const std::string help = one_line(help_text());
  for (const auto& row : option_table()) {
    for (const auto alias : words_of(row.aliases))
      CHECK_THAT(help, Contains("--" + std::string(alias)));
  }
  CHECK_THAT(help, Contains("(default: 30); also --shutdown-timeout"));
}

TEST_CASE("the short help has 25 lines and only options of the table") {
  const std::string text = short_help_text();
  CHECK(lines_of(text).size() <= 25);
  std::istringstream words(text);
  int options = 0;
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (!word.starts_with("--")) continue;
    INFO(word);
    ++options;
    const auto& table = option_table();
    const auto row = std::find_if(table.begin(), table.end(), [&](const OptionRow& candidate) {
      return word.substr(2, equals - 2) == candidate.name;
    });
    // ./a.out has options of its own.
    CHECK((row != table.end() || word == "--any"));
  }
  CHECK(options >= 12);
  CHECK_THAT(text, Contains("ddprun --help lists all options"));
}

TEST_CASE("what the short help offers is accepted, and its defaults are the true ones") {
  const std::map<std::string, std::string> placeholders = {
      {"N", "2"}, {"SECONDS", "5"}, {"FOLDER", "logs"}, {"RANKS", "0,1"}, {"FILE", "report.json"}};
  int values = 0;
  for (const std::string& line : lines_of(short_help_text())) {
    if (!line.starts_with("  --")) continue;
    INFO(line);
    std::istringstream words(line.substr(0, line.find("  ", 2)));
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) {
        CHECK(parse_launch_options({word, "p"}, {}).has_value());
        continue;
      }
      const std::string offered = word.substr(equals + 1);
      for (const std::string_view value : words_of(offered)) {
        const auto meant = placeholders.find(std::string(value));
        const std::string text = meant == placeholders.end() ? std::string(value) : meant->second;
        INFO(word.substr(0, equals + 1) + text);
        CHECK(parse_launch_options({word.substr(0, equals + 1) + text, "p"}, {}).has_value());
        ++values;
      }
    }
  }
  CHECK(values >= 13);
  const std::string text = one_line(short_help_text());
  int defaults = 0;
  for (const OptionRow& row : option_table()) {
    const auto at = text.rfind(" --" + std::string(row.name) + "=");
    const auto stated = text.find("(default: ", at);
    if (at == std::string::npos || stated > text.find(" --", at + 1)) continue;
    const auto shown = row.default_text.empty() ? row.default_value : row.default_text;
    CHECK(text.substr(stated, text.find(')', stated) - stated) ==
          "(default: " + std::string(shown));
    ++defaults;
  }
  CHECK(defaults >= 5);
}

TEST_CASE("the manual page has every spelling and variable of every option") {
  const std::string page = man_page();
  CHECK_THAT(page, StartsWith(".TH DDPRUN 1 "));
  const auto escaped = [](std::string text) {
    for (auto at = text.find('-'); at != std::string::npos; at = text.find('-', at + 2))
      text.insert(at, "\\");
    return text;
  };
  for (const auto& row : option_table()) {
    for (const auto& spelling : spellings(row))
      CHECK_THAT(page, Contains("\\fB" + escaped(spelling) + "\\fR"));
    if (!row.environment.empty())
      CHECK_THAT(page, Contains("\\fB" + std::string(row.environment) + "\\fR"));
    if (!row.no_effect.empty()) CHECK_THAT(page, Contains("It has no effect: "));
  }
}

TEST_CASE("every line of the manual page that begins with a dot is a known request") {
  const std::vector<std::string> known{".TH ", ".SH ", ".SS ", ".TP", ".PP"};
  for (const auto& line : lines_of(man_page())) {
    INFO(line);
    CHECK_FALSE(line.starts_with('\''));
    if (!line.starts_with('.')) continue;
    CHECK(std::any_of(known.begin(), known.end(),
                      [&](const auto& request) { return line.starts_with(request); }));
  }
}

TEST_CASE("completion knows every option and choice in every shell, and no other shell") {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    INFO(shell);
    const std::string script = completion_script(shell);
    for (const auto& row : option_table()) {
      INFO(row.name);
      CHECK_THAT(script, Contains(shell == "fish" ? "-l " + std::string(row.name)
                                                  : "--" + std::string(row.name)));
      const bool offered = shell != "fish" || row.type != ValueType::optional_choice;
      if (!row.choices.empty() && offered) {
        std::string words(row.choices);
        std::replace(words.begin(), words.end(), '|', ' ');
        CHECK_THAT(script, Contains(words));
      }
    }
  }
  CHECK(completion_script("tcsh").empty());
}

TEST_CASE("words are quoted as a shell needs them") {
  CHECK(shell_quoted({"a", "--b=c,d", "/e/f.g"}) == "a --b=c,d /e/f.g");
  CHECK(shell_quoted({"a b", "", "$x", "it's", "*"}) == "'a b' '' '$x' 'it'\\''s' '*'");
  CHECK(shell_quoted({}).empty());
}

TEST_CASE("the dry run shows choice, command, workers, devices, environment and meeting point") {
  const std::string text = dry_run_text(small_plan(), {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  for (const std::string part :
       {"chosen as    a Python file by its name\n", "executes     /usr/bin/python3\n",
        "command      /usr/bin/python3 -u t.py 'it'\\''s' '${local_rank}'\n", "workers      2\n",
        "  rank 0 (local rank 0)  CUDA_VISIBLE_DEVICES=0,1  /usr/bin/python3 -u t.py 'it'\\''s' "
        "0\n",
        "  rank 1 (local rank 1)  /usr/bin/python3 -u t.py 'it'\\''s' 1\n",
        "GPUs         0,1 (NVML)\n", "stdout       pty\n",
        "stderr       pipe, shown and to stderr.log\n", "stdin        none\n",
        "logs         /logs/id-7_(random)/attempt_(restarts)/(local rank)/\n",
        "run id       id-7\n", "store        localhost, a free port, served by ddprun\n",
        "containment  tree\n", "  WORLD_SIZE=2\n", "note         a note\n"}) {
    CHECK_THAT(text, Contains(part));
  }
  auto plan = small_plan();
  plan.master_port = 29500;
  plan.devices = {.chosen = {}, .cpu_job = true, .source = {}, .notes = {}};
  CHECK_THAT(dry_run_text(plan, {}), Contains("localhost, port 29500, served by ddprun\n") &&
                                         Contains("GPUs         none, because of"));
}

TEST_CASE("the dry run shows what differs between workers: CPUs, threads, streams") {
  auto plan = small_plan();
  plan.workers[0].cpus = {0, 1, 2, 5};
  plan.workers[0].omp_threads = 4;
  plan.workers[1].standard_output = {StreamTransport::file, false, true};
  const std::string text = dry_run_text(plan, {});
  CHECK_THAT(text, Contains("OMP_NUM_THREADS=4  CPUs 0-2,5"));
  CHECK_THAT(text, Contains("stdout       local rank 0: pty\n"));
  CHECK_THAT(text, Contains("stdout       local rank 1: stdout.log only\n"));
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["workers"][0]["cpus"] == std::vector<int>{0, 1, 2, 5});
  CHECK(json["workers"][0]["omp_threads"] == 4);
}

TEST_CASE("the dry run shows what bounds logs, silence and the end") {
  auto plan = small_plan();
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("log limits   slow reader: output is dropped and counted\n") &&
                 Contains("hangs        detection off (see --progress-timeout)\n") &&
                 Contains("restarts     none\n") && Contains("kill timeout 10 s\n"));
  plan.options.logs.rotation = {1'000'000, 3};
  plan.options.logs.policy = ddprun::agent::LogPolicy::block;
  plan.options.progress_timeout = 60s;
  plan.options.log_timeout = 2s;
  plan.options.kill_timeout = 500ms;
  plan.options.max_restarts = 3;
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("log limits   a new file after 1000000 bytes, 3 older kept; slow "
                      "reader: the workers wait\n") &&
                 Contains("hangs        no progress for 1 min 0 s, or no output for 2.0 s\n") &&
                 Contains("restarts     at most 3; waits 0 s, 1 s, 2 s ... up to 30 s\n") &&
                 Contains("kill timeout 0.5 s\n"));
  const auto json = nlohmann::json::parse(dry_run_json(plan, {}));
  CHECK(json["logs"]["policy"] == "block");
  CHECK(json["logs"]["max_size_bytes"] == 1'000'000);
  CHECK(json["logs"]["keep"] == 3);
  CHECK(json["progress_timeout_seconds"] == 60.0);
  CHECK(json["log_timeout_seconds"] == 2.0);
  CHECK(json["on_silence"] == "report");
  CHECK(json["kill_timeout_seconds"] == 0.5);
  CHECK(json["restart_delay_seconds"] == "auto");
  plan.options.on_silence = OnSilence::restart;
  CHECK_THAT(dry_run_text(plan, {}), Contains(", or no output of any worker for 2.0 s\n"));
  plan.options.restart_delay = 0ms;
  CHECK_THAT(dry_run_text(plan, {}), Contains("restarts     at most 3; never waits\n"));
  plan.options.restart_delay = 2500ms;
  CHECK_THAT(dry_run_text(plan, {}), Contains("; waits 0 s, 2.5 s, 5 s ... up to 60 s\n"));
  CHECK(nlohmann::json::parse(dry_run_json(plan, {}))["restart_delay_seconds"] == 2.5);
}

TEST_CASE("the dry run does not pretend to know a port that the kernel will choose") {
  auto plan = small_plan();
  CHECK_THAT(dry_run_text(plan, {{"MASTER_PORT", "0"}}), Contains("  MASTER_PORT=(a free port)\n"));
  plan.master_port = 29500;
  CHECK_THAT(dry_run_text(plan, {{"MASTER_PORT", "29500"}}), Contains("  MASTER_PORT=29500\n"));
  CHECK_THAT(dry_run_text(plan, {{"TORCHELASTIC_ERROR_FILE", ""}, {"DDPRUN_PROGRESS_FILE", ""}}),
             Contains("  TORCHELASTIC_ERROR_FILE=(made at the start)\n") &&
                 Contains("  DDPRUN_PROGRESS_FILE=(made at the start)\n"));
}

TEST_CASE("the dry run as JSON says the same") {
  const auto json = nlohmann::json::parse(dry_run_json(small_plan(), {{"RANK", "0"}}));
  CHECK(json["program"]["kind"] == "python_script");
  CHECK(json["program"]["file"] == "/usr/bin/python3");
  CHECK(json["workers"].size() == 2);
  CHECK(json["workers"][1]["argv"][4] == "1");
  CHECK(json["workers"][0]["cuda_visible_devices"] == "0,1");
  CHECK(json["workers"][1]["cuda_visible_devices"].is_null());
  CHECK(json["gpus"]["chosen"] == std::vector<std::string>{"0", "1"});
  CHECK(json["workers"][0]["stdout"]["transport"] == "pty");
  CHECK(json["workers"][1]["stderr"]["to_file"] == true);
  CHECK(json["stdin"] == "none");
  CHECK(json["logs"]["base"] == "/logs");
  CHECK(json["store"]["port"] == 0);
  CHECK(json["run_id"] == "id-7");
  CHECK(json["environment"]["RANK"] == "0");
  CHECK(json["grace_period_seconds"] == 30.0);
  CHECK(json["containment"] == "tree");
  CHECK(json["notes"][0] == "a note");
}

TEST_CASE("a dry run as JSON shows arguments that are not UTF-8 without failing") {
  auto plan = small_plan();
  plan.program.argv.push_back("\xff\xfe");
  CHECK(nlohmann::json::accept(dry_run_json(plan, {{"X", "\xc3"}})));
}
