#include "agent/preload/importer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/preload/importer_socket.hpp"
#include "agent/preload/importer_text.hpp"
#include "agent/preload/worker_packet.hpp"
#include "base/describe.hpp"
#include "base/printable.hpp"

namespace ddprun::agent {
namespace {

constexpr auto kReadable = boost::asio::posix::descriptor_base::wait_read;
// From the end of its socket to the end of a process.
constexpr std::chrono::milliseconds kEndsWithin{500};
constexpr std::size_t kPrintedMax = 64 * 1024;

/// With the folder in front of the user's own PYTHONPATH, which is kept beside it.
std::vector<std::string> with_folder(std::vector<std::string> environment,
                                     const std::string& folder) {
  constexpr std::string_view kPath = "PYTHONPATH=";
  const auto own = std::find_if(environment.begin(), environment.end(),
                                [&](const std::string& entry) { return entry.starts_with(kPath); });
  if (own == environment.end()) {
    environment.push_back(std::string(kPath) + folder);
    return environment;
  }
  const std::string value = own->substr(kPath.size());
  *own = std::string(kPath) + folder + (value.empty() ? "" : ":" + value);
  environment.push_back("DDPRUN_PRELOAD_PYTHONPATH=" + value);
  return environment;
}

bool write_file(const std::string& path, std::string_view text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool is_child(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

}  // namespace

Importer::Importer(boost::asio::io_context& context, const machine::UserState& user, Events events)
    : context_(context),
      user_(user),
      events_(std::move(events)),
      control_(context),
      timer_(context) {}

void Importer::start(Program program) {
  program_ = std::move(program);
  program_.environment = with_folder(std::move(program_.environment), program_.folder);
  if (mkdir(program_.folder.c_str(), 0700) != 0 ||
      !write_file(program_.folder + "/sitecustomize.py", kImporterText)) {
    return give_up(
        fmt::format("{} cannot be written: {}", program_.folder, last_system_error().message()));
  }
  state_ = State::checking;
  limit_imports(kSlowAfter);
  // A wrapper, or a Python that does not read PYTHONPATH, would run the job's program here.
  if (const ErrorCode failed = spawn(words_without_program(program_.argv)))
    return give_up(fmt::format("{}: {}", program_.file, failed.message()));
  if (const ErrorCode failed = send_packet(control_.native_handle(), "check"))
    return give_up(failed.message());
  await_answer();
}

/// The control socket is its stdin: what `spawn` gives a process are those three streams.
ErrorCode Importer::spawn(const std::vector<std::string>& argv) {
  auto ends = make_ends();
  if (!ends) return ends.error();
  for (UniqueFd& file : printed_) {
    auto made = memory_file("");
    if (!made) return made.error();
    file = std::move(*made);
  }
  machine::SpawnRequest request;
  request.file = program_.file;
  request.argv = argv;
  request.environment = program_.environment;
  request.stdin_fd = ends->theirs.get();
  request.stdout_fd = printed_[0].get();
  request.stderr_fd = printed_[1].get();
  auto process = machine::spawn(request, user_);
  if (!process) return process.error();
  process_ = std::move(*process);
  ErrorCode failed;
  control_.close(failed);
  control_.assign(ends->ours.get(), failed);
  if (!failed) static_cast<void>(ends->ours.release());
  return failed;
}

void Importer::await_answer() {
  control_.async_wait(kReadable, [this](ErrorCode failed) {
    if (!failed) on_answer();
  });
}

void Importer::on_answer() {
  const Received received = receive_packet(control_.native_handle());
  if (received.would_wait) return await_answer();
  const ImporterAnswer answer = parse_answer(received.packet);
  if (state_ == State::checking) {
    if (!answer.ready)
      return give_up(fmt::format("{} does not run sitecustomize from PYTHONPATH", program_.file));
    if (received.sender != process_.pid)
      return give_up(fmt::format("{} runs Python as a child; name the Python itself (PYTHON_EXEC)",
                                 program_.file));
    forget_process();
    return ask_for_modules();
  }
  if (state_ == State::importing && answer.ready) {
    spdlog::info("imported once for all workers: {}", printable(answer.text));
    if (!answer.more.empty())
      events_.notice("a part is left to the workers (--preload): " + printable(answer.more));
    timer_.cancel();
    state_ = State::ready;
    await_answer();
    return events_.settled();
  }
  if (state_ == State::importing && !answer.more.empty() && ++left_out_ <= kLeftOutMax) {
    events_.notice(fmt::format("every worker imports {} for itself (--preload): {}",
                               printable(answer.more), printable(answer.text)));
    program_.modules.push_back("-" + answer.more);
    forget_process();
    return ask_for_modules();
  }
  if (!answer.text.empty()) return give_up(answer.text);
  // It is ending; child_ended() will know how.
  timer_.expires_after(kEndsWithin);
  timer_.async_wait([this](ErrorCode cancelled) {
    if (!cancelled) give_up(ended_line(""));
  });
}

void Importer::ask_for_modules() {
  state_ = State::importing;
  auto text = memory_file(import_text(program_.argv, program_.modules));
  ErrorCode failed = text ? spawn(program_.argv) : text.error();
  if (!failed) failed = send_packet(control_.native_handle(), "import", {text->get()});
  if (failed) return give_up(fmt::format("{}: {}", program_.file, failed.message()));
  await_answer();
}

/// Nothing else is to be seen of a job whose imports take long.
void Importer::limit_imports(std::chrono::seconds next) {
  timer_.expires_after(next);
  timer_.async_wait([this, next](ErrorCode cancelled) {
    if (cancelled || is_settled()) return;
    if (next != kSlowAfter)
      return give_up(fmt::format("no end of the imports within {}", describe(kImportLimit)));
    events_.notice(fmt::format("importing modules once for all workers (--preload): {} so far",
                               describe(kSlowAfter)));
    limit_imports(kImportLimit - kSlowAfter);
  });
}

void Importer::fork(const std::vector<machine::SpawnRequest>& requests,
                    std::function<void(std::vector<ForkedWorker>)> forked) {
  state_ = State::forking;
  forked_ = std::move(forked);
  ErrorCode failed;
  for (const machine::SpawnRequest& worker : requests) {
    failed = request(worker);
    if (failed) break;
  }
  if (!failed) failed = send_packet(control_.native_handle(), "fork");
  if (failed) return give_up("the importing process takes no request: " + failed.message());
  timer_.expires_after(kForkLimit);
  timer_.async_wait([this](ErrorCode cancelled) {
    if (!cancelled && state_ == State::forking)
      give_up(fmt::format("no worker was forked within {}", describe(kForkLimit)));
  });
}

ErrorCode Importer::request(const machine::SpawnRequest& worker) {
  auto ends = make_ends();
  if (!ends) return ends.error();
  auto text = memory_file(worker_text(worker, getpid()));
  if (!text) return text.error();
  std::vector<int> descriptors{text->get(), worker.stdin_fd, worker.stdout_fd, worker.stderr_fd,
                               ends->theirs.get()};
  UniqueFd cgroup;
  if (worker.cgroup >= 0) {
    cgroup.reset(openat(worker.cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (!cgroup) return last_system_error();
    descriptors.push_back(cgroup.get());
  }
  if (const ErrorCode failed = send_packet(control_.native_handle(), "worker", descriptors))
    return failed;
  // The handler may run after all births have been given up.
  const auto birth = std::make_shared<Birth>(Birth{Stream(context_), {}});
  births_.push_back(birth);
  ErrorCode failed;
  birth->answer.assign(ends->ours.get(), failed);
  if (failed) return failed;
  static_cast<void>(ends->ours.release());
  birth->answer.async_wait(kReadable, [this, birth](ErrorCode cancelled) {
    if (!cancelled && birth->is_awaited()) on_birth(*birth);
  });
  return {};
}

/// The worker waits: it is let go when all have answered.
void Importer::on_birth(Birth& birth) {
  const Received received = receive_packet(birth.answer.native_handle());
  const ImporterAnswer answer = parse_answer(received.packet);
  if (!answer.ready) {
    birth.worker.problem = answer.text.empty() ? "it ended before it ran" : answer.text;
  } else if (received.sender <= 0 || !is_child(received.sender)) {
    birth.worker.problem = "it ended before it ran";
  } else {
    birth.worker.process.pid = received.sender;
    const long pidfd = syscall(SYS_pidfd_open, received.sender, 0);
    if (pidfd >= 0) birth.worker.process.pidfd.reset(static_cast<int>(pidfd));
  }
  end_births_if_all();
}

void Importer::end_births_if_all() {
  const bool all = std::none_of(births_.begin(), births_.end(),
                                [](const auto& birth) { return birth->is_awaited(); });
  if (!all || !forked_) return;
  timer_.cancel();
  if (state_ == State::forking) state_ = State::ready;
  std::vector<ForkedWorker> workers;
  std::string problem;
  for (const auto& birth : std::exchange(births_, {})) {
    ForkedWorker& worker = birth->worker;
    // It may have ended since it answered; no one tells of the end of a process that runs no worker
    // yet.
    if (worker.problem.empty() &&
        (!is_child(worker.process.pid) || send_packet(birth->answer.native_handle(), "go"))) {
      worker.process = {};
      worker.problem = "it ended before it ran";
    }
    if (!worker.problem.empty()) problem = worker.problem;
    workers.push_back(std::move(worker));
  }
  const auto forked = std::exchange(forked_, nullptr);
  if (!problem.empty() && state_ == State::ready) give_up(problem);
  forked(std::move(workers));
}

/// What was asked for is answered, too.
void Importer::give_up(const std::string& why) {
  if (state_ == State::gone) return;
  const State before = state_;
  stop();
  events_.notice("every worker imports for itself (--preload): " + printable(why));
  if (before == State::forking) {
    give_up_births(why);
  } else if (before != State::ready) {
    events_.settled();
  }
}

void Importer::give_up_births(const std::string& why) {
  for (const auto& birth : births_) {
    if (birth->is_awaited()) birth->worker.problem = why;
  }
  end_births_if_all();
}

void Importer::abandon_forks() {
  if (state_ != State::forking) return;
  stop();
  give_up_births("the job ends");
}

/// Its last word may not have been read yet.
bool Importer::child_ended(pid_t pid) {
  if (pid <= 0 || pid != process_.pid) return false;
  const auto reaped = machine::reap(pid);
  process_ = {};
  if (state_ == State::checking) return true;  // it has answered
  if (state_ != State::gone) on_answer();
  if (process_.pid <= 0) give_up(ended_line(reaped ? describe(reaped->exit) : ""));
  return true;
}

void Importer::stop() {
  state_ = State::gone;
  timer_.cancel();
  forget_process();
}

/// It is sent SIGKILL. Whoever reaps our children reaps it; not here, where its end would be waited
/// for.
void Importer::forget_process() {
  ErrorCode ignored;
  control_.close(ignored);
  if (process_.pid > 0) kill(process_.pid, SIGKILL);
  process_ = {};
}

/// `how`: empty: it is not known.
std::string Importer::ended_line(const std::string& how) const {
  const std::string line = last_line();
  return fmt::format("the process that had imported the modules has ended{}{}{}{}",
                     how.empty() ? "" : " (", how, how.empty() ? "" : ")",
                     line.empty() ? "" : ": " + line);
}

/// The last one that it wrote to its stderr; empty: none.
std::string Importer::last_line() const {
  const int file = printed_[1].get();
  if (file < 0) return "";
  std::string text(kPrintedMax, '\0');
  const off_t begin =
      std::max<off_t>(0, lseek(file, 0, SEEK_END) - static_cast<off_t>(kPrintedMax));
  const ssize_t bytes = pread(file, text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, bytes)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t last = text.rfind('\n');
  if (last != std::string::npos) text.erase(0, last + 1);
  return text;
}

}  // namespace ddprun::agent
