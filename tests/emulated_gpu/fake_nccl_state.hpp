// What the fake NCCL keeps of a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_gpu/fake_nccl_board.hpp"

namespace fake_nccl {

enum Status {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};

/// Prints it and aborts: real NCCL would crash, or go on with garbage.
[[noreturn]] void misused(const char* what);

struct Plan {
  std::map<std::string, std::uint64_t> faults;  // name -> number of an operation, or 0
  [[nodiscard]] bool has(const std::string& name) const { return faults.contains(name); }
  [[nodiscard]] bool has(const std::string& name, std::uint64_t number) const {
    const auto found = faults.find(name);
    return found != faults.end() && found->second == number;
  }
};

constexpr int kToAll = -1;  ///< instead of a rank that bytes are sent to

struct Sent {
  int to;
  const void* from;
  std::size_t bytes;
};
struct Received {
  int from;
  void* to;
  std::size_t bytes;
};
/// What one rank does in one operation of all.
struct Operation {
  std::vector<Sent> sent;
  std::vector<Received> received;  // in the order in which the other sends
  std::function<void(int rank, const std::byte*, std::size_t)> take;  // of what is sent to all
  bool is_posted = false;
};

struct State {
  std::shared_ptr<Board> board;
  int rank = 0, ranks = 1;
  Plan plan;
  bool is_joined = false;
  bool is_aborted = false;
  Status error = success;
  std::uint64_t operations = 0;
  std::uint64_t pair_calls = 0;  // of ncclSend and ncclRecv
  bool answers_late = false;     // the call before
  bool is_connecting = false;    // and never done with that

  bool all(std::atomic<std::uint64_t> RankBoard::*counter, std::uint64_t least);
  /// True: the operation is over.
  bool attempt(Operation& operation, std::uint64_t number);

 private:
  void post(const Operation& operation, std::uint64_t number);
  void read_from(int other, const Operation& operation);
};

struct Handle {
  std::shared_ptr<State> state;
};

}  // namespace fake_nccl
