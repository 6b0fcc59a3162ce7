// The worker of bench_restart: reports when it began to run and when SIGTERM reached it, then dies
// of it at once.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "bench/restart/event.hpp"

namespace {

int output = -1;
ddprun::bench::WorkerEvent event;

void tell(char kind) {
  event.kind = kind;
  event.monotonic_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  [[maybe_unused]] const auto written = write(output, &event, sizeof event);
}

extern "C" void on_term(int) {
  tell('t');
  _exit(143);
}

}  // namespace

int main() {
  const char* path = std::getenv("BENCH_RESTART_FIFO");
  const char* rank = std::getenv("RANK");
  if (path == nullptr || rank == nullptr) return 2;
  output = open(path, O_WRONLY | O_CLOEXEC);
  event.pid = getpid();
  event.rank = std::atoi(rank);
  std::signal(SIGTERM, on_term);
  tell('s');
  while (true) pause();
}
