#include "launcher/ctl/commands.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/exit_codes.hpp"
#include "base/printable.hpp"
#include "base/program_main.hpp"
#include "launcher/ctl/asked_job.hpp"
#include "launcher/ctl/job_connection.hpp"
#include "launcher/ctl/jobs_here.hpp"
#include "launcher/ctl/log_lines.hpp"
#include "launcher/ctl/screens.hpp"
#include "launcher/ctl/top.hpp"
#include "proto/error.hpp"
#include "proto/json_document.hpp"

namespace ddprun::ctl {
namespace {

using namespace std::chrono_literals;
using Clock = JobConnection::Clock;
using proto::JsonDocument;

constexpr auto kStacksLimit = 15s;        // a debugger may take 10 s
constexpr auto kListLimit = 1s;           // for each job
constexpr auto kFilesEvery = 250ms;       // log files that workers write themselves
constexpr auto kUnfinishedLook = 1000ms;  // progress bars

/// None: the deadline has passed.
std::optional<std::string> receive_by(JobConnection& connection, const JobSocketName& job,
                                      std::optional<Clock::time_point> deadline) {
  auto answer = connection.receive(deadline);
  if (!answer && answer.error() == proto::Errc::timed_out) return std::nullopt;
  if (!answer) no_answer(job, answer.error());
  const auto document = JsonDocument::parse(*answer);
  if (!document) no_answer(job, make_error_code(proto::Errc::malformed));
  if (const auto problem = document->root().member("error"))
    throw Failed{kExitRefused,
                 fmt::format("job {}: {}", job.job, problem->text().value_or("refused"))};
  return std::move(*answer);
}

std::string receive(JobConnection& connection, const JobSocketName& job,
                    std::optional<Clock::time_point> deadline) {
  auto answer = receive_by(connection, job, deadline);
  if (!answer) no_answer(job, make_error_code(proto::Errc::timed_out));
  return std::move(*answer);
}

std::string ask(JobConnection& connection, const JobSocketName& job, const std::string& request,
                Clock::duration limit = kAnswerLimit) {
  const auto deadline = Clock::now() + limit;
  if (const auto sent = connection.send(request, deadline); !sent) no_answer(job, sent.error());
  return receive(connection, job, deadline);
}

/// Nothing comes behind it.
struct End {
  std::optional<std::int64_t> exit_code;  ///< of the job; none: it still runs
};
/// None: it is another answer.
std::optional<End> end_in(const std::string& answer) {
  const auto document = JsonDocument::parse(answer);
  if (!document->root().member("end")) return std::nullopt;
  const auto code = document->root().member("exit_code");
  return End{code ? code->signed_number() : std::nullopt};
}

/// What the program prints, and whether it could.
class Output {
 public:
  explicit Output(bool has_stdout) : has_stdout_(has_stdout) {}
  void print(const std::string& text) const {
    if (!print_text("ddpctl", text, has_stdout_)) throw Failed{kExitOutput, ""};
    std::fflush(stdout);
  }

 private:
  const bool has_stdout_;
};

/// The job's answer, or why there is none.
Result<std::string> status_of(const JobSocketName& job) {
  const auto deadline = Clock::now() + kListLimit;
  auto connection = JobConnection::open(job.address, deadline);
  if (!connection) return connection.error();
  if (connection->peer_user() != job.user)
    return make_error_code(boost::system::errc::permission_denied);
  if (auto sent = connection->send(R"({"request":"status"})", deadline); !sent) return sent.error();
  return connection->receive(deadline);
}

int list(const CtlOptions& options, const Output& output) {
  std::vector<ListedJob> listed;
  std::string answers;
  const auto jobs = jobs_of_user();
  for (const JobSocketName& job : jobs) {
    auto status = status_of(job);
    if (!status) {
      std::fprintf(stderr, "ddpctl: job %s does not answer: %s\n", printable(job.job).c_str(),
                   status.error().message().c_str());
      continue;
    }
    answers += (answers.empty() ? "" : ",\n ") + *status;
    listed.push_back({job.job, std::move(*status)});
  }
  if (options.json) {
    output.print("[" + answers + "]\n");
  } else if (!listed.empty()) {
    output.print(list_text(listed));
  } else if (jobs.empty()) {
    output.print("no job of this user runs on this machine\n");
  }
  return listed.empty() && !jobs.empty() ? kExitNoRound : kExitSuccess;
}

void show_status(const CtlOptions& options, const Output& output) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const std::string status = ask(connection, job, R"({"request":"status"})");
  output.print(options.json ? status + "\n" : status_text(status));
}

void show_events(const CtlOptions& options, const Output& output) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const auto sent =
      connection.send(fmt::format(R"({{"request":"events","follow":{}}})", options.follow),
                      Clock::now() + kAnswerLimit);
  if (!sent) no_answer(job, sent.error());
  while (true) {
    std::optional<Clock::time_point> deadline;
    if (!options.follow) deadline = Clock::now() + kAnswerLimit;
    const std::string event = receive(connection, job, deadline);
    if (end_in(event)) return;
    output.print(options.json ? event + "\n" : event_text(event));
  }
}

/// Takes one answer. False: nothing comes behind it.
class Logs {
 public:
  Logs() : lines_(isatty(STDOUT_FILENO) == 1) {}

  bool take(const std::string& answer) {
    const auto now = Clock::now();
    const auto document = JsonDocument::parse(answer);
    const auto field = [&](std::string_view name) { return document->root().member(name); };
    const auto number = [&](std::string_view name) {
      const auto value = field(name);
      return value ? value->signed_number().value_or(0) : 0;
    };
    const auto text = [&](std::string_view name) {
      const auto value = field(name);
      return value ? value->text().value_or("") : "";
    };
    if (field("end")) {
      files_.read(lines_, now);
      lines_.finish();
      return false;
    }
    const LogStream stream{number("round"), number("rank"), std::string(text("stream"))};
    if (field("lost_bytes")) {
      note(fmt::format("{} bytes came too fast to be shown here", number("lost_bytes")));
    } else if (field("goes_to")) {
      note_absent(stream, text("goes_to"));
    } else if (field("file")) {
      files_.add(stream, std::string(text("file")), lines_, now);
    } else {
      lines_.add(stream, text("text"), now);
    }
    return true;
  }
  void look() {
    files_.read(lines_, Clock::now());
    lines_.settle(Clock::now());
  }
  std::string take_lines() { return lines_.take(); }
  [[nodiscard]] bool reads_files() const { return !files_.empty(); }

 private:
  static void note(const std::string& text) { std::fprintf(stderr, "ddpctl: %s\n", text.c_str()); }
  void note_absent(const LogStream& stream, std::string_view place) {
    if (!noted_.emplace(stream.name, place).second) return;
    note(place == "nowhere"
             ? fmt::format("the {} of workers that are not shown goes nowhere", stream.name)
             : fmt::format("the workers' {} is ddprun's own, and is not seen here; "
                           "--output=prefix of ddprun would lead it through ddprun",
                           stream.name));
  }

  LogLines lines_;
  LogFiles files_;
  std::set<std::pair<std::string, std::string>> noted_;
};

void show_logs(const CtlOptions& options, const Output& output) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const std::string rank = options.rank ? fmt::format(",\"rank\":{}", *options.rank) : "";
  const auto sent =
      connection.send(fmt::format(R"({{"request":"logs","follow":{}{}}})", options.follow, rank),
                      Clock::now() + kAnswerLimit);
  if (!sent) no_answer(job, sent.error());
  Logs logs;
  auto give_up_at = Clock::now() + kAnswerLimit;
  for (bool goes_on = true; goes_on;) {
    const auto look_at = Clock::now() + (logs.reads_files() ? kFilesEvery : kUnfinishedLook);
    const auto answer = receive_by(connection, job, options.follow ? look_at : give_up_at);
    if (answer) {
      goes_on = logs.take(*answer);
      give_up_at = Clock::now() + kAnswerLimit;
    } else if (!options.follow) {
      no_answer(job, make_error_code(proto::Errc::timed_out));
    }
    if (options.follow && goes_on) logs.look();
    if (const std::string lines = logs.take_lines(); !lines.empty()) output.print(lines);
  }
}

/// Ranks of the workers of this node that have not ended.
std::vector<std::int64_t> ranks_in(const std::string& status) {
  std::vector<std::int64_t> ranks;
  const auto document = JsonDocument::parse(status);
  const auto workers = document->root().member("workers");
  for (std::size_t i = 0; workers && i < workers->array_size().value_or(0); ++i) {
    const auto worker = workers->element(i);
    const auto rank = worker.member("rank");
    if (rank && !worker.member("exit_code") && !worker.member("signal"))
      ranks.push_back(rank->signed_number().value_or(0));
  }
  return ranks;
}

void show_stacks(const CtlOptions& options, const Output& output) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const auto ranks = options.rank ? std::vector<std::int64_t>{*options.rank}
                                  : ranks_in(ask(connection, job, R"({"request":"status"})"));
  if (ranks.empty())
    throw Failed{kExitRefused, fmt::format("no worker of job {} runs now", job.job)};
  std::string problem;
  for (const std::int64_t rank : ranks) {
    try {
      const auto answer = JsonDocument::parse(ask(
          connection, job, fmt::format(R"({{"request":"stacks","rank":{}}})", rank), kStacksLimit));
      std::string text = fmt::format("rank {}:\n", rank);
      const auto lines = answer->root().member("stacks");
      for (std::size_t i = 0; lines && i < lines->array_size().value_or(0); ++i)
        text += fmt::format("    {}\n", printable(lines->element(i).text().value_or("")));
      output.print(text);
    } catch (const Failed& failed) {  // the others may be well
      if (failed.code != kExitRefused) throw;
      problem = failed.text;
    }
  }
  if (!problem.empty()) throw Failed{kExitRefused, problem};
}

void send_signal(const CtlOptions& options) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const std::string rank = options.rank ? fmt::format(",\"rank\":{}", *options.rank) : "";
  ask(connection, job,
      fmt::format(R"({{"request":"signal","signal":{}{}}})", options.signal, rank));
}

void save(const CtlOptions& options, const Output& output) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.timeout);
  output.print(save_text(ask(
      connection, job, fmt::format(R"({{"request":"save","timeout_seconds":{}}})", seconds.count()),
      seconds + kAnswerLimit)));
}

void restart(const CtlOptions& options) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  ask(connection, job, R"({"request":"restart"})");
}

void stop(const CtlOptions& options) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  ask(connection, job, fmt::format(R"({{"request":"stop","now":{}}})", options.now));
}

int wait(const CtlOptions& options) {
  const JobSocketName job = job_of(options);
  JobConnection connection = connect(job);
  const auto sent = connection.send(R"({"request":"wait"})", Clock::now() + kAnswerLimit);
  if (!sent) no_answer(job, sent.error());
  const auto end = end_in(receive(connection, job, std::nullopt));
  if (!end || !end->exit_code) no_answer(job, make_error_code(proto::Errc::malformed));
  return static_cast<int>(*end->exit_code);
}

int run_command(const CtlOptions& options, const Output& output) {
  switch (options.command) {
    case Command::list:
      return list(options, output);
    case Command::status:
      show_status(options, output);
      break;
    case Command::top:
      return show_top(options);
    case Command::events:
      show_events(options, output);
      break;
    case Command::logs:
      show_logs(options, output);
      break;
    case Command::stacks:
      show_stacks(options, output);
      break;
    case Command::signal:
      send_signal(options);
      break;
    case Command::save:
      save(options, output);
      break;
    case Command::restart:
      restart(options);
      break;
    case Command::stop:
      stop(options);
      break;
    case Command::wait:
      return wait(options);
  }
  return kExitSuccess;
}

}  // namespace

int run(const CtlOptions& options, bool has_stdout) {
  try {
    return run_command(options, Output(has_stdout));
  } catch (const Failed& failed) {
    if (!failed.text.empty()) std::fprintf(stderr, "ddpctl: %s\n", printable(failed.text).c_str());
    return failed.code;
  }
}

}  // namespace ddprun::ctl
