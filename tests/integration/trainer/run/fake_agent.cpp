#include "tests/integration/trainer/run/fake_agent.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "worker/ddprun_progress.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLimit = 120s;
constexpr auto kGrace = 5s;

std::string entry(const std::string& name, const std::string& value) {
  return name + "=" + value + std::string(1, '\0');
}

}  // namespace

struct FakeAgent::Worker {
  int slot = 0;  // names its progress page: that of one worker after another
  int rank = 0;
  std::unique_ptr<Child> child;
  UniqueFd ended;  // a pidfd
  UniqueFd connection;
  std::string received;
  bool is_greeted = false;
  bool is_joined = false;
  bool is_waiting = false;
  std::optional<std::int64_t> step;
  std::optional<int> status;
  const volatile ddprun_progress_page* page = nullptr;

  ~Worker() {
    if (page != nullptr) ::munmap(const_cast<ddprun_progress_page*>(page), sizeof *page);
  }
};

FakeAgent::FakeAgent(Settings settings)
    : settings_(std::move(settings)), socket_name_("@ddprun/test/" + unique_mark()) {
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, socket_name_.data() + 1, socket_name_.size() - 1);
  REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name_.size())) ==
          0);
  REQUIRE(::listen(listener_.get(), 64) == 0);
  round_ = -1;
  form_round(false);
}

FakeAgent::~FakeAgent() = default;

std::vector<std::pair<std::string, std::string>> FakeAgent::variables(const Worker& worker) const {
  auto all = rank_variables(worker.rank, world_size(), *store_, restarts_);
  all.insert(all.end(), {{"TORCHELASTIC_RUN_ID", "run"},
                         {"DDPRUN_ROUND", std::to_string(round_)},
                         {"DDPRUN_EPOCH", "1"}});
  if (settings_.max_workers > 0)
    all.emplace_back("DDPRUN_MAX_WORLD_SIZE", std::to_string(settings_.max_workers));
  if (source_rank_) all.emplace_back("DDPRUN_SOURCE_RANK", std::to_string(*source_rank_));
  return all;
}

void FakeAgent::start(Worker& worker) {
  std::vector<std::string> command{settings_.program.empty() ? program("train")
                                                             : settings_.program};
  command.insert(command.end(), settings_.arguments.begin(), settings_.arguments.end());
  const std::string page = (pages_ / std::to_string(worker.slot)).string();
  ChildOptions options;
  options.leave_stdin = true;
  options.directory = settings_.directory;
  options.limit = 5min;
  options.environment = variables(worker);
  for (const auto& one : settings_.environment) options.environment.push_back(one);
  options.environment.emplace_back("DDPRUN_SOCKET", socket_name_);
  options.environment.emplace_back("DDPRUN_PROGRESS_FILE", page);
  options.environment.emplace_back("OMP_NUM_THREADS", "1");
  worker.child = std::make_unique<Child>(command, options);
  worker.ended = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, worker.child->pid(), 0)));
  if (worker.page != nullptr) return;
  const UniqueFd file(::open(page.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::ftruncate(file.get(), sizeof *worker.page) == 0);
  worker.page = static_cast<const volatile ddprun_progress_page*>(
      ::mmap(nullptr, sizeof *worker.page, PROT_READ, MAP_SHARED, file.get(), 0));
}

/// Workers that wait keep their places; others are new.
void FakeAgent::form_round(bool is_failure) {
  ++round_;
  if (is_failure) ++restarts_;
  REQUIRE(restarts_ < 100);
  if (std::exchange(is_changing_, false))
    std::erase_if(workers_, [](const auto& one) { return one->status.has_value(); });
  is_stopping_ = false;
  auto listener = rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  store_ =
      std::make_unique<rdzv::StoreServer>(rdzv::StoreServer::start(std::move(*listener)).value());
  const bool has_survivors = std::any_of(workers_.begin(), workers_.end(),
                                         [](const auto& one) { return one->is_waiting; });
  if (!settings_.is_replacing && has_survivors)
    std::erase_if(workers_, [](const auto& one) { return !one->is_waiting; });
  else
    workers_.resize(static_cast<std::size_t>(settings_.workers));
  if (settings_.turns_ranks && round_ > 0)
    std::rotate(workers_.begin(), workers_.begin() + 1, workers_.end());
  source_rank_.reset();
  source_step_ = -1;
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    auto& worker = workers_[rank];
    if (!worker) {
      worker = std::make_unique<Worker>();
      static int slots = 0;
      worker->slot = slots++;
    }
    worker->rank = static_cast<int>(rank);
    if (worker->is_waiting && worker->step && *worker->step > source_step_) {
      source_rank_ = worker->rank;
      source_step_ = *worker->step;
    }
  }
  note("round " + std::to_string(round_));
  formed_at_ = Clock::now();
  joined_at_ = {};
  for (const auto& worker : workers_) {
    if (!worker->is_waiting) continue;
    std::string frame = entry("message", "round");
    for (const auto& [name, value] : variables(*worker)) frame += entry(name, value);
    send(*worker, frame);
  }
  for (const auto& worker : workers_) {
    if (worker->is_waiting) {
      worker->is_waiting = false;
      continue;
    }
    worker->connection.reset();
    worker->received.clear();
    worker->is_greeted = worker->is_joined = false;
    worker->step.reset();
    worker->status.reset();
    start(*worker);
  }
}

void FakeAgent::send(Worker& worker, const std::string& frame) {
  const auto size = static_cast<std::uint32_t>(frame.size());
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xff);
  bytes += frame;
  // A worker that has just died does not read it.
  static_cast<void>(!::send(worker.connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

void FakeAgent::interrupt(Worker& worker, const char* when) {
  send(worker, entry("message", "interrupt") + entry("when", when));
  note("rank " + std::to_string(worker.rank) + " is interrupted: " + when);
}

void FakeAgent::accept() {
  UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ucred peer{};
  socklen_t size = sizeof peer;
  ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  for (const auto& worker : workers_)
    if (worker->child && !worker->status && worker->child->pid() == peer.pid)
      worker->connection = std::move(connection);
}

void FakeAgent::read(Worker& worker) {
  char buffer[4096];
  const ssize_t count = ::recv(worker.connection.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (count <= 0) {
    worker.connection.reset();
    return;
  }
  worker.received.append(buffer, static_cast<std::size_t>(count));
  while (worker.received.size() >= 4) {
    std::uint32_t size = 0;
    for (int i = 0; i < 4; ++i)
      size = size << 8 | static_cast<unsigned char>(worker.received[static_cast<std::size_t>(i)]);
    if (worker.received.size() < 4 + size) return;
    const std::string frame = worker.received.substr(4, size);
    worker.received.erase(0, 4 + size);
    handle(worker, frame);
  }
}

void FakeAgent::handle(Worker& worker, const std::string& frame) {
  if (!worker.is_greeted) {
    worker.is_greeted = true;
    send(worker, R"({"ddprun":"job","version":1,"features":["elastic"]})");
  } else if (frame == entry("message", "join")) {
    worker.is_joined = true;
    send(worker, entry("message", "joined"));
    note("rank " + std::to_string(worker.rank) + " joins");
    if (all_joined()) joined_at_ = Clock::now();
  } else if (frame.starts_with(entry("message", "wait"))) {
    worker.is_waiting = true;
    worker.step.reset();
    const std::size_t at = frame.find("step=");
    if (at != std::string::npos) worker.step = std::stoll(frame.substr(at + 5));
    note("rank " + std::to_string(worker.rank) + " waits after step " +
         std::to_string(worker.step.value_or(-1)));
  }
}

void FakeAgent::note(const std::string& event) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_);
  events_ += std::to_string(time.count() / 1000) + "." + std::to_string(time.count() % 1000 / 100) +
             " ms: " + event + "\n";
}

void FakeAgent::note_end(Worker& worker) {
  const ChildResult result = worker.child->wait();
  note("rank " + std::to_string(worker.rank) + " ended: " + std::to_string(result.status));
  worker.status = result.status;
  worker.connection.reset();
  worker.is_waiting = false;
  out_ += result.out;
  err_ += result.err;
}

void FakeAgent::advance() {
  const auto is_live = [](const auto& one) { return !one->status.has_value(); };
  const bool is_failure =
      !is_changing_ && std::any_of(workers_.begin(), workers_.end(), [&](const auto& one) {
        return one->status.value_or(0) != 0 || one->is_waiting;
      });
  if (!is_stopping_ && is_failure) {
    failed_at_ = Clock::now();
    is_stopping_ = true;
    kill_at_ = Clock::now() + kGrace;
    for (const auto& worker : workers_) {
      if (!is_live(worker) || worker->is_waiting) continue;
      if (worker->is_joined)
        interrupt(*worker, "now");
      else
        worker->child->signal(SIGKILL);
    }
  }
  if (!is_stopping_) {
    is_over_ = std::none_of(workers_.begin(), workers_.end(), is_live);
    return;
  }
  if (Clock::now() > kill_at_)
    for (const auto& worker : workers_)
      if (is_live(worker) && !worker->is_waiting) worker->child->signal(SIGKILL);
  const bool is_still = std::none_of(workers_.begin(), workers_.end(), [&](const auto& one) {
    return is_live(one) && !one->is_waiting;
  });
  if (is_still) form_round(is_failure);
}

void FakeAgent::work(std::chrono::milliseconds wait) {
  std::vector<pollfd> waited{{listener_.get(), POLLIN, 0}};
  std::vector<std::pair<Worker*, bool>> meanings;
  for (const auto& worker : workers_) {
    if (worker->status) continue;
    waited.push_back({worker->ended.get(), POLLIN, 0});
    meanings.emplace_back(worker.get(), true);
    if (!worker->connection) continue;
    waited.push_back({worker->connection.get(), POLLIN, 0});
    meanings.emplace_back(worker.get(), false);
  }
  ::poll(waited.data(), waited.size(), static_cast<int>(wait.count()));
  if (waited[0].revents != 0) accept();
  for (std::size_t i = 0; i < meanings.size(); ++i) {
    if (waited[i + 1].revents == 0) continue;
    auto& [worker, is_end] = meanings[i];
    if (is_end)
      note_end(*worker);
    else if (worker->connection)
      read(*worker);
  }
  advance();
}

bool FakeAgent::run_until(const std::function<bool()>& done) {
  const Time limit = Clock::now() + kLimit;
  while (!done()) {
    if (is_over_ || Clock::now() > limit) return false;
    work(1ms);
  }
  return true;
}

void FakeAgent::run_for(std::chrono::microseconds time) {
  const Time end = Clock::now() + time;
  static_cast<void>(run_until([&] { return Clock::now() >= end; }));
}

void FakeAgent::finish() {
  const bool has_ended = !run_until([] { return false; }) && is_over_;
  INFO(out_ << err_);
  REQUIRE(has_ended);
  for (const auto& worker : workers_) REQUIRE(worker->status == 0);
}

void FakeAgent::signal(int rank, int number) {
  note("signal " + std::to_string(number) + " to rank " + std::to_string(rank));
  workers_.at(static_cast<std::size_t>(rank))->child->signal(number);
}

void FakeAgent::change_world(int workers) {
  settings_.workers = workers;
  is_stopping_ = is_changing_ = true;
  kill_at_ = Clock::now() + kGrace;
  for (const auto& worker : workers_) interrupt(*worker, "step");
}

void FakeAgent::leave(int workers) {
  settings_.workers -= workers;
  is_stopping_ = is_changing_ = true;
  kill_at_ = Clock::now() + kGrace;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (rank < workers)
      signal(rank, SIGTERM);
    else
      interrupt(*workers_[static_cast<std::size_t>(rank)], "step");
  }
}

bool FakeAgent::all_joined() const {
  return !is_stopping_ && std::all_of(workers_.begin(), workers_.end(), [](const auto& one) {
    return one->is_joined && !one->status;
  });
}

std::int64_t FakeAgent::step() const {
  std::int64_t step = -1;
  for (const auto& worker : workers_)
    if (worker->page->version == 1)
      step = std::max(step, static_cast<std::int64_t>(worker->page->step));
  return step;
}

std::string FakeAgent::phase(int rank) const {
  char text[25] = {};
  const volatile std::uint64_t* words = workers_.at(static_cast<std::size_t>(rank))->page->phase;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t word = words[i];
    std::memcpy(text + 8 * i, &word, sizeof word);
  }
  return text;
}

pid_t FakeAgent::pid(int rank) const {
  return workers_.at(static_cast<std::size_t>(rank))->child->pid();
}

}  // namespace ddprun::test
