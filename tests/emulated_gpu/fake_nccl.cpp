// NCCL's symbols, for tests: collectives between emulated GPUs of this host, which fail when they
// are told to.
//
// DDPRUN_FAKE_NCCL="RANK:FAULT RANK:FAULT ...", read when a rank joins. FAULT: no_init (it never
// ends), init_stalls (the call that begins it never returns), init_error, init_kill (SIGKILL),
// hang=N (operation N, counted from 1, is never done), stall=N (the call that begins operation N
// never returns), connecting=N (the call that begins operation N is "in progress" for ever),
// error=N (an asynchronous error), kill=N (SIGKILL), refuse=N (call N of ncclSend and ncclRecv, and
// so the group's end, fails), destroy_hangs (ncclCommDestroy never returns, as where other ranks do
// not come to it), abort_hangs (nor does ncclCommAbort, as where NCCL's kernels lie behind work
// that hangs), slow (calls answer "in progress" first). DDPRUN_FAKE_NCCL_VERSION: a number such as
// 22809.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/fake_nccl_board.hpp"
#include "tests/emulated_gpu/native_stream.hpp"
#include "trainer/compute/numeric.hpp"

namespace fake_nccl {
namespace {

enum Status {
  success = 0,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};
constexpr int kToAll = -1;

struct Plan {
  std::map<std::string, std::uint64_t> faults;  // name -> number of an operation, or 0
  [[nodiscard]] bool has(const std::string& name) const { return faults.contains(name); }
  [[nodiscard]] bool has(const std::string& name, std::uint64_t number) const {
    const auto found = faults.find(name);
    return found != faults.end() && found->second == number;
  }
};

Plan plan_of(int rank) {
  Plan plan;
  const char* const text = std::getenv("DDPRUN_FAKE_NCCL");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    if (std::atoi(word.c_str()) != rank) continue;
    const std::string fault = word.substr(colon + 1);
    const std::size_t equals = fault.find('=');
    plan.faults[fault.substr(0, equals)] =
        equals == std::string::npos ? 0 : std::strtoull(fault.c_str() + equals + 1, nullptr, 10);
  }
  return plan;
}

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

struct SegmentHead {
  std::int64_t to;
  std::uint64_t bytes;
};

}  // namespace

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

  bool all(std::atomic<std::uint64_t> RankBoard::*counter, std::uint64_t least) {
    for (int one = 0; one < ranks; ++one)
      if ((board->rank(one).*counter).load() < least) return false;
    return true;
  }

  void post(const Operation& operation, std::uint64_t number) {
    std::byte* at = board->bytes(rank);
    const std::byte* const end = at + kBytesOfRank;
    for (const Sent& one : operation.sent) {
      const SegmentHead head{one.to, one.bytes};
      if (static_cast<std::size_t>(end - at) < sizeof head + one.bytes) std::abort();
      std::memcpy(at, &head, sizeof head);
      std::memcpy(at + sizeof head, one.from, one.bytes);
      at += sizeof head + one.bytes;
    }
    board->rank(rank).bytes = static_cast<std::uint64_t>(at - board->bytes(rank));
    board->rank(rank).posted.store(number);
  }

  void read_from(int other, const Operation& operation) {
    std::vector<Received> mine;
    for (const Received& one : operation.received)
      if (one.from == other) mine.push_back(one);
    std::size_t next = 0;
    const std::byte* at = board->bytes(other);
    const std::byte* const end = at + board->rank(other).bytes;
    while (at < end) {
      SegmentHead head{};
      std::memcpy(&head, at, sizeof head);
      at += sizeof head;
      if (head.to == kToAll && operation.take) operation.take(other, at, head.bytes);
      if (head.to == rank) {
        if (next >= mine.size() || mine[next].bytes != head.bytes) {
          error = invalid_usage;  // the two do not fit together: real NCCL would hang
          return;
        }
        std::memcpy(mine[next++].to, at, head.bytes);
      }
      at += head.bytes;
    }
    if (next != mine.size()) error = invalid_usage;
  }

  /// True: the operation is over.
  bool attempt(Operation& operation, std::uint64_t number) {
    if (is_aborted) return true;
    if (plan.has("hang", number)) return false;
    if (plan.has("kill", number)) std::raise(SIGKILL);
    if (plan.has("error", number)) {
      error = remote_error;
      return false;
    }
    if (!operation.is_posted) {
      if (!all(&RankBoard::read, number - 1)) return false;
      post(operation, number);
      operation.is_posted = true;
    }
    if (!all(&RankBoard::posted, number)) return false;
    for (int other = 0; other < ranks; ++other) read_from(other, operation);
    board->rank(rank).read.store(number);
    return true;
  }
};

namespace {

struct Handle {
  std::shared_ptr<State> state;
};

/// Those that no call has ended: a rank may leave without, which is no leak of its memory.
std::mutex handles_mutex;
std::map<Handle*, std::unique_ptr<Handle>> handles;

void forget(Handle* handle) {
  const std::lock_guard lock(handles_mutex);
  handles.erase(handle);
}

thread_local std::map<Handle*, std::pair<Operation, void*>> group;
thread_local int group_depth = 0;
thread_local Status group_error = success;
thread_local bool group_is_late = false;  // one of its calls is in progress

/// Of ncclSend and ncclRecv.
Status pair_status(Handle* comm) {
  if (group_depth == 0) return invalid_usage;
  if (comm->state->plan.has("refuse", ++comm->state->pair_calls)) group_error = internal_error;
  return group_error;
}

void enqueue(Handle* comm, Operation operation, void* stream) {
  const std::uint64_t number = ++comm->state->operations;
  while (comm->state->plan.has("stall", number)) pause();
  if (comm->state->plan.has("connecting", number)) comm->state->is_connecting = true;
  if (comm->state->is_connecting) return;
  auto kept = std::make_shared<Operation>(std::move(operation));
  static_cast<ddprun::trainer::test::NativeStream*>(stream)->enqueue(
      [state = comm->state, kept, number] { return state->attempt(*kept, number); });
}

Status answer(Handle* comm) {
  State& state = *comm->state;
  state.answers_late = state.plan.has("slow");
  const bool is_late = state.answers_late || state.is_connecting;
  if (group_depth > 0) group_is_late = group_is_late || is_late;
  return is_late ? in_progress : success;
}

std::size_t size_of(int type) { return type == 7 ? 4 : type == 6 || type == 9 ? 2 : 1; }

/// What rank after rank has sent; rounded after each addition.
template <class Value>
void add(void* to, int rank, const std::byte* data, std::size_t size) {
  namespace trainer = ddprun::trainer;
  auto* const sum = static_cast<Value*>(to);
  const std::size_t values = size / sizeof(Value);
  for (std::size_t i = 0; i < values; ++i) {
    Value value{};
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    const float one = trainer::load(value);
    trainer::store(sum[i], rank == 0 ? one : trainer::load(sum[i]) + one);
  }
}

// The boards that this process made stay open for the other ranks.
std::mutex boards_mutex;
std::map<std::string, std::shared_ptr<Board>> boards;

}  // namespace

extern "C" {

struct UniqueId {
  char bytes[128];
};

int ncclGetVersion(int* version) {
  const char* const text = std::getenv("DDPRUN_FAKE_NCCL_VERSION");
  *version = text == nullptr ? 22809 : std::atoi(text);
  return success;
}

int ncclGetUniqueId(UniqueId* id) {
  std::string path;
  const auto board = Board::create(path);
  if (!board || path.size() >= sizeof id->bytes) return system_error;
  *id = {};
  std::memcpy(id->bytes, path.data(), path.size());
  const std::lock_guard lock(boards_mutex);
  boards[path] = board;
  return success;
}

int ncclCommInitRankConfig(Handle** comm, int ranks, UniqueId id, int rank, void* /*config*/) {
  if (rank < 0 || rank >= ranks || ranks > kRanksMax) return invalid_argument;
  auto state = std::make_shared<State>();
  state->board = Board::open(id.bytes);
  if (!state->board) return system_error;
  state->rank = rank;
  state->ranks = ranks;
  state->plan = plan_of(rank);
  if (state->plan.has("init_kill")) std::raise(SIGKILL);
  while (state->plan.has("init_stalls")) pause();
  auto handle = std::make_unique<Handle>(Handle{state});
  *comm = handle.get();
  {
    const std::lock_guard lock(handles_mutex);
    handles[*comm] = std::move(handle);
  }
  if (state->plan.has("init_error")) {
    state->error = system_error;
  } else if (!state->plan.has("no_init")) {
    state->board->rank(rank).joined.store(1);
  }
  return in_progress;
}

int ncclCommGetAsyncError(Handle* comm, int* error) {
  State& state = *comm->state;
  if (state.error == success && !state.is_joined)
    state.is_joined = state.all(&RankBoard::joined, 1);
  *error = state.error != success || state.is_joined ? state.error : in_progress;
  if (std::exchange(state.answers_late, false) || state.is_connecting) *error = in_progress;
  return success;
}

int ncclCommDestroy(Handle* comm) {
  while (comm->state->plan.has("destroy_hangs")) pause();
  forget(comm);
  return success;
}
int ncclCommAbort(Handle* comm) {
  if (group_depth > 0) {
    std::fputs("fake NCCL: a communicator was aborted within a group\n", stderr);
    std::abort();
  }
  while (comm->state->plan.has("abort_hangs")) pause();
  comm->state->is_aborted = true;
  forget(comm);
  return success;
}

const char* ncclGetErrorString(int status) {
  return status == remote_error ? "remote process exited or there was a network error"
                                : "fake NCCL failed";
}
const char* ncclGetLastError(Handle* /*comm*/) { return "as the test has planned"; }

int ncclGroupStart() {
  ++group_depth;
  return success;
}
int ncclGroupEnd() {
  if (--group_depth > 0) return success;
  Status status = std::exchange(group_error, success);
  if (status != success) group.clear();
  for (auto& [comm, one] : group) {
    enqueue(comm, std::move(one.first), one.second);
    status = answer(comm);
  }
  group.clear();
  const bool is_late = std::exchange(group_is_late, false);
  return status == success && is_late ? in_progress : status;
}

int ncclSend(const void* from, std::size_t count, int type, int peer, Handle* comm, void* stream) {
  if (const Status status = pair_status(comm); status != success) return status;
  auto& one = group[comm];
  one.second = stream;
  one.first.sent.push_back({peer, from, count * size_of(type)});
  return success;
}
int ncclRecv(void* to, std::size_t count, int type, int peer, Handle* comm, void* stream) {
  if (const Status status = pair_status(comm); status != success) return status;
  auto& one = group[comm];
  one.second = stream;
  one.first.received.push_back({peer, to, count * size_of(type)});
  return success;
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Handle* comm,
                  void* stream) {
  Operation operation;
  const std::size_t bytes = count * size_of(type);
  if (comm->state->rank == root) operation.sent.push_back({kToAll, from, bytes});
  operation.take = [=](int rank, const std::byte* data, std::size_t size) {
    if (rank == root) std::memmove(to, data, size);
  };
  enqueue(comm, std::move(operation), stream);
  return answer(comm);
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type, Handle* comm,
                  void* stream) {
  Operation operation;
  operation.sent.push_back({kToAll, from, count * size_of(type)});
  operation.take = [=](int rank, const std::byte* data, std::size_t size) {
    std::memcpy(static_cast<std::byte*>(to) + static_cast<std::size_t>(rank) * size, data, size);
  };
  enqueue(comm, std::move(operation), stream);
  return answer(comm);
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation_kind,
                  Handle* comm, void* stream) {
  if ((type != 7 && type != 6 && type != 9) || operation_kind != 0) return invalid_argument;
  Operation operation;
  operation.sent.push_back({kToAll, from, count * size_of(type)});
  operation.take = [=](int rank, const std::byte* data, std::size_t size) {
    if (type == 7) add<float>(to, rank, data, size);
    if (type == 6) add<ddprun::trainer::Half>(to, rank, data, size);
    if (type == 9) add<ddprun::trainer::BFloat16>(to, rank, data, size);
  };
  enqueue(comm, std::move(operation), stream);
  return answer(comm);
}

}  // extern "C"

}  // namespace fake_nccl
