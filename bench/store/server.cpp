#include "bench/store/server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/store/floor.hpp"
#include "bench/support/measure.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartLimit = 60s;

std::uint16_t free_port() {
  const Result<rdzv::StoreListener> listener = rdzv::listen_store("127.0.0.1", 0);
  if (!listener) throw std::runtime_error("no free port on 127.0.0.1");
  return listener->port;
}

bool answers(std::uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  addr.sin_port = htons(port);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof addr) == 0;
}

/// In the child, between fork and exec.
void enter(const Server::Surroundings& surroundings) {
  if (surroundings.cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(surroundings.cpu), &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  if (surroundings.resolv_conf.empty()) return;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount(surroundings.resolv_conf.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr) != 0) {
    _exit(126);
  }
}

std::string first_line(int fd) {
  std::string line;
  const auto until = Clock::now() + kStartLimit;
  while (line.find('\n') == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd entry{fd, POLLIN, 0};
    char byte = 0;
    if (poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0 ||
        read(fd, &byte, 1) != 1) {
      return {};
    }
    line += byte;
  }
  line.pop_back();
  return line;
}

/// Where the tree is, the script lies beside this source file.
std::string python_script() {
  const std::string file = __FILE__;
  return file.substr(0, file.rfind('/')) + "/pytorch_store.py";
}

bool has_torch(const std::string& python) {
  return run_ms({python, "-c", "import torch.distributed"}) >= 0;
}

}  // namespace

std::vector<ServerKind> find_servers(const std::vector<std::string>& names,
                                     const std::string& python) {
  std::vector<ServerKind> found;
  bool python_asked = false;
  bool torch = false;
  for (const std::string& name : names) {
    const auto skip = [&](const char* why) {
      std::fprintf(stderr, "bench_store: without %s: %s\n", name.c_str(), why);
    };
    if (name == "ours" || name == "floor") {
      found.push_back({name,
                       name == "ours" ? Speech::c10d : Speech::floor,
                       {own_folder() + "/bench_store", fmt::format("--serve={}", name)},
                       true});
    } else if (name == "rdzvd") {
      const std::string program = own_folder() + "/rdzvd";
      if (access(program.c_str(), X_OK) != 0) {
        skip("the program is not beside this one");
      } else {
        found.push_back({name, Speech::c10d, {program, "--listen=127.0.0.1:0"}, true});
      }
    } else if (name == "libuv" || name == "legacy") {
      if (!std::exchange(python_asked, true)) torch = !python.empty() && has_torch(python);
      if (!torch) {
        skip("no Python with torch (name one with --python or DDPRUN_BENCH_PYTHON)");
      } else {
        found.push_back({name, Speech::c10d, {python, python_script(), name}, true});
      }
    } else if (name == "redis") {
      const std::string program = find_program({"redis-server"});
      if (program.empty()) {
        skip("redis-server is not installed");
      } else {
        found.push_back({name,
                         Speech::redis,
                         {program, "--port", "{port}", "--bind", "127.0.0.1", "--save", "",
                          "--appendonly", "no", "--daemonize", "no", "--maxclients", "60000"},
                         false});
      }
    } else if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      std::istringstream words(name.substr(equals + 1));
      found.push_back({name.substr(0, equals), Speech::c10d,
                       std::vector<std::string>(std::istream_iterator<std::string>(words), {}),
                       true});
    } else {
      throw std::runtime_error(fmt::format("no server is called {}", name));
    }
  }
  return found;
}

int serve(const std::string& name) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Result<rdzv::StoreListener> listener = rdzv::listen_store("127.0.0.1", 0);
  if (!listener) return 1;
  std::printf("127.0.0.1:%u\n", listener->port);
  std::fflush(stdout);
  if (name == "floor") serve_floor(std::move(listener->fd));
  rdzv::StoreSettings settings;
  settings.clients_expected = 65'536;  // as far as the limit of open files allows
  const auto server = rdzv::StoreServer::start(std::move(*listener), std::move(settings)).value();
  char byte = 0;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}

Server::Server(ServerKind kind, const Surroundings& surroundings) : kind_(std::move(kind)) {
  if (!kind_.prints_port) port_ = free_port();
  std::vector<std::string> command = kind_.command;
  std::replace(command.begin(), command.end(), std::string("{port}"), std::to_string(port_));
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);

  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    throw std::runtime_error("no descriptor left for a pipe");
  const UniqueFd in_read(in[0]);
  input_.reset(in[1]);
  const UniqueFd out_read(out[0]);
  UniqueFd out_write(out[1]);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in_read.get(), 0);
    dup2(out_write.get(), 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enter(surroundings);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  out_write.reset();
  if (kind_.prints_port) {
    const std::string line = first_line(out_read.get());
    const int port = std::atoi(line.substr(line.rfind(':') + 1).c_str());
    if (port <= 0 || port > 65535)
      throw std::runtime_error(fmt::format("{} did not print its port within 60 s", kind_.name));
    port_ = static_cast<std::uint16_t>(port);
    return;
  }
  const auto until = Clock::now() + kStartLimit;
  while (!answers(port_)) {
    if (Clock::now() >= until || waitpid(pid_, nullptr, WNOHANG) == pid_)
      throw std::runtime_error(fmt::format("{} did not answer within 60 s", kind_.name));
    std::this_thread::sleep_for(10ms);
  }
}

Server::~Server() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

double Server::cpu_seconds() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double Server::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid_));
  std::string word;
  double kilobytes = 0;
  while (file >> word) {
    double value = 0;
    if (word == "Private_Dirty:" && file >> value) kilobytes += value;
  }
  return kilobytes * 1024;
}

void Server::settle() const {
  double before = cpu_seconds();
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(50ms);
    const double now = cpu_seconds();
    if (now - before < 50e-6) return;
    before = now;
  }
}

}  // namespace ddprun::bench
