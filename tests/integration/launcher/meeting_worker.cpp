// A worker that meets all others of its round in the store, says so in one line, then does what its
// arguments say:
//
//   fail RANK ROUND CODE   exit CODE as this rank of that round
//   log FILE               while it runs on, FILE gets lines: its round, and the time of the
//   machine until FILE             run on until FILE is there alone FOLDER           exit 8 at once
//   where another worker of this rank lives, or one of this round
//                          or a newer one has lived; FOLDER has a file for each rank
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/client/store_client.hpp"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The lock on the rank's file goes with this process, however it ends.
bool is_alone(const std::string& folder) {
  const std::string rank = variable("RANK");
  const int file = open((folder + "/" + rank).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0) {
    std::fprintf(stderr, "rank %s lives twice\n", rank.c_str());
    return false;
  }
  char last[32] = {};
  const bool any = pread(file, last, sizeof last - 1, 0) > 0;
  const std::string round = variable("DDPRUN_ROUND");
  if (any && std::stoll(round) <= std::atoll(last)) {
    std::fprintf(stderr, "rank %s starts round %s after round %s\n", rank.c_str(), round.c_str(),
                 last);
    return false;
  }
  return pwrite(file, round.data(), round.size(), 0) == static_cast<ssize_t>(round.size());
}

/// Once now, and then for ever; short lines at the end of a file do not mix with those of others.
void log_life(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const auto write_line = [file] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::string line = variable("DDPRUN_ROUND") + " " +
                             std::to_string(std::chrono::nanoseconds(now).count()) + "\n";
    return write(file, line.data(), line.size()) > 0;
  };
  write_line();  // also of a worker that ends before the thread runs
  std::thread([write_line] {
    while (write_line()) usleep(5'000);
  }).detach();
}

bool meet() {
  using ddprun::rdzv::StoreClient;
  const auto deadline = ddprun::rdzv::Clock::now() + std::chrono::seconds(30);
  const auto port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT")));
  auto store = StoreClient::connect(variable("MASTER_ADDR"), port, deadline);
  if (!store) {
    std::fprintf(stderr, "no store: %s\n", store.error().message().c_str());
    return false;
  }
  const auto count = store->add("met", 1, deadline);
  const std::string size = variable("WORLD_SIZE");
  if (count && std::to_string(*count) == size && !store->set("all", "1", deadline)) return false;
  const std::vector<std::string> all{"all"};
  if (!count || !store->wait(all, deadline)) return false;
  const std::string line = "met rank=" + variable("RANK") + "/" + size +
                           " node=" + variable("GROUP_RANK") + "/" + variable("GROUP_WORLD_SIZE") +
                           " local=" + variable("LOCAL_RANK") + "/" + variable("LOCAL_WORLD_SIZE") +
                           " round=" + variable("DDPRUN_ROUND") +
                           " restarts=" + variable("TORCHELASTIC_RESTART_COUNT") + " at " +
                           variable("MASTER_ADDR") + ":" + variable("MASTER_PORT") + "\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "alone" && !is_alone(argv[i + 1])) return 8;
  if (!meet()) return 9;
  for (int i = 1; i < argc;) {
    const std::string action = argv[i];
    if (action == "fail" && i + 3 < argc) {
      if (variable("RANK") == argv[i + 1] && variable("DDPRUN_ROUND") == argv[i + 2])
        return std::atoi(argv[i + 3]);
      i += 4;
    } else if (action == "alone" && i + 1 < argc) {
      i += 2;
    } else if (action == "log" && i + 1 < argc) {
      log_life(argv[i + 1]);
      i += 2;
    } else if (action == "until" && i + 1 < argc) {
      while (!std::filesystem::exists(argv[i + 1])) usleep(5'000);
      i += 2;
    } else {
      std::fprintf(stderr, "meeting_worker: unknown action %s\n", action.c_str());
      return 2;
    }
  }
  return 0;
}
