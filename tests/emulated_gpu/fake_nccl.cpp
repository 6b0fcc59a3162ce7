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
// 21800. It has the functions of 2.18, the oldest version that train accepts, and no newer ones.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/fake_nccl_state.hpp"
#include "tests/emulated_gpu/native_stream.hpp"

namespace fake_nccl {
namespace {

constexpr int kVersion = 22809;

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

/// What ncclSend and ncclRecv return.
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

std::size_t size_of(int type) { return type == 7 ? 4 : 1; }

/// What rank after rank has sent.
void add(void* to, int rank, const std::byte* data, std::size_t size) {
  auto* const sum = static_cast<float*>(to);
  for (std::size_t i = 0; i < size / sizeof(float); ++i) {
    float value = 0;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    sum[i] = rank == 0 ? value : sum[i] + value;
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
  *version = text == nullptr ? kVersion : std::atoi(text);
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
  if (group_depth > 0) misused("a communicator was aborted within a group");
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
  if (type != 7 || operation_kind != 0) return invalid_argument;
  Operation operation;
  operation.sent.push_back({kToAll, from, count * size_of(type)});
  operation.take = [=](int rank, const std::byte* data, std::size_t size) {
    add(to, rank, data, size);
  };
  enqueue(comm, std::move(operation), stream);
  return answer(comm);
}

}  // extern "C"

}  // namespace fake_nccl
