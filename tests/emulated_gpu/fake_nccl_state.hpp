// What the fake NCCL keeps of a communicator, and of the memory that it has allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/emulated_gpu/fake_nccl_board.hpp"

namespace ddprun::trainer::test {
struct NativeMemory;
}

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

/// Memory that a communicator knows.
struct Registered {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool is_window = false;

  [[nodiscard]] bool holds(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= data && byte < data + bytes;
  }
};

/// How a rank's part of an operation is known to its communicator: the same on all ranks.
struct Place {
  enum Kind : std::uint64_t { plain, registered, window } kind = plain;
  std::uint64_t offset = 0;  ///< in the window

  friend bool operator==(const Place&, const Place&) = default;
};

/// What ncclMemAlloc has given to the threads of this process.
class Allocated {
 public:
  /// Null: the thread's GPU has no more, or there is none.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* memory);
  /// All of it, in one piece that was not freed. `change`: of how many communicators know it.
  bool register_in(const std::byte* data, std::size_t bytes, int change);

 private:
  struct Piece {
    std::size_t bytes = 0;
    ddprun::trainer::test::NativeMemory* owner = nullptr;
    int registrations = 0;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Piece> pieces_;
};
Allocated& allocated();

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

/// A call of all ranks that is under way.
struct PendingWindow {
  void** handle = nullptr;  // where it is to be written
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
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
  std::vector<std::unique_ptr<Registered>> known;
  PendingWindow pending;
  std::uint64_t windows = 0;  // that were begun

  bool all(std::atomic<std::uint64_t> RankBoard::*counter, std::uint64_t least);
  /// True: the operation is over.
  bool attempt(Operation& operation, std::uint64_t number);
  [[nodiscard]] Place place_of(const void* address) const;

  /// The handle of memory that was not known; null: it is not all in one piece of ncclMemAlloc's.
  Registered* add(const void* data, std::size_t bytes, bool is_window);
  bool remove(const void* handle);
  void remove_all();
  /// False: it is not all in one piece of ncclMemAlloc's, which may not be freed meanwhile.
  bool begin_window(void** handle, const void* data, std::size_t bytes);
  /// Ends the window that is under way once all ranks have come to it.
  void look_at_window();

 private:
  PendingWindow take_pending();
  void post(const Operation& operation, std::uint64_t number);
  void read_from(int other, const Operation& operation);
};

struct Handle {
  std::shared_ptr<State> state;
};

}  // namespace fake_nccl
