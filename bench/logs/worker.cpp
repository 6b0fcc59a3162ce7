// A worker of bench_logs: prints numbered lines as fast as it can, at a rate, or each with the
// time.
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "bench/logs/board.hpp"

namespace bench = ddprun::bench;

#include "bench/logs/write_all.hpp"

using ddprun::bench::write_all;

namespace {

void wait_for(const std::atomic<int>& flag) {
  while (flag.load() == 0) usleep(200);
}

/// Some arithmetic that the compiler can't leave out; the same amount each time.
void compute(long rounds) {
  volatile double x = 1;
  for (long i = 0; i < rounds; ++i) x = x * 1.0000001 + 1e-9;
}

}  // namespace

// BOARD MODE BYTES LINE_BYTES WRITE_BYTES RATE TARGET
//   MODE: burst; returns, backspaces (as burst, with a carriage return for each newline, or a
//   backspace in each line); random (as burst, any bytes); paced (RATE bytes per second, on a time
//   table); busy (computes RATE rounds between writes); stamped (a line with the time each RATE
//   microseconds) TARGET: - for stdout, else a file, %r being the rank
int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "bench_logs_worker is started by bench_logs\n");
    return 2;
  }
  bench::Board* board = bench::map_board(argv[1]);
  const std::string mode = argv[2];
  const auto bytes = static_cast<std::size_t>(std::atoll(argv[3]));
  const auto line_bytes = static_cast<std::size_t>(std::atoll(argv[4]));
  const auto write_bytes = static_cast<std::size_t>(std::atoll(argv[5]));
  const long rate = std::atol(argv[6]);
  const char* rank_text = std::getenv("RANK");
  const int rank = std::atoi(rank_text != nullptr ? rank_text : "0");
  if (board == nullptr || rank >= bench::kRanksMax) return 2;
  int fd = STDOUT_FILENO;
  if (const std::string target = argv[7]; target != "-") {
    std::string path = target;
    if (const auto at = path.find("%r"); at != std::string::npos)
      path.replace(at, 2, std::to_string(rank));
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (fd < 0) return 2;
  }

  // The number is counted up in place: printf would be slower than all that is measured here.
  std::string line(line_bytes, 'x');
  char head[64];
  std::snprintf(head, sizeof head, "%02d 00000000 %019lld ", rank, 0LL);
  line.replace(0, bench::kLineHead, head, bench::kLineHead);
  line.back() = mode == "returns" ? '\r' : '\n';
  if (mode == "backspaces") line[line.size() / 2] = '\b';
  std::string buffer;
  std::size_t made = 0;
  std::string noise(mode == "random" ? 1 << 20 : 0, '\0');
  std::generate(noise.begin(), noise.end(),
                [bits = std::mt19937(1)]() mutable { return static_cast<char>(bits() >> 24); });
  const auto add_line = [&] {
    made += line_bytes;
    if (!noise.empty()) {
      buffer.append(noise, made % (noise.size() - line_bytes), line_bytes);
      return;
    }
    buffer += line;
    for (std::size_t digit = 10; ++line[digit] > '9'; --digit) line[digit] = '0';
  };

  ++board->ready;
  wait_for(board->start);
  const std::int64_t began = bench::now_ns();
  board->began_ns[rank] = began;
  bool written = true;
  while (made < bytes && written) {
    buffer.clear();
    if (mode == "stamped") {
      std::this_thread::sleep_for(std::chrono::microseconds(rate));
      std::snprintf(head, sizeof head, "%019lld ", static_cast<long long>(bench::now_ns()));
      line.replace(12, 20, head, 20);
      add_line();
    } else {
      while (buffer.size() < write_bytes && made < bytes) add_line();
    }
    written = write_all(fd, buffer.data(), buffer.size());
    if (mode == "busy") compute(rate);
    if (mode == "paced") {
      const auto due = began + static_cast<std::int64_t>(static_cast<double>(made) /
                                                         static_cast<double>(rate) * 1e9);
      if (const auto left = due - bench::now_ns(); left > 0)
        std::this_thread::sleep_for(std::chrono::nanoseconds(left));
    }
  }
  board->ended_ns[rank] = bench::now_ns();
  ++board->finished;
  wait_for(board->leave);
  return written ? 0 : 1;
}
