#include "trainer/nccl/nccl_group.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

#include "proto/error.hpp"
#include "trainer/comm/exchange.hpp"

namespace ddprun::trainer::nccl {
namespace {

constexpr std::chrono::milliseconds kLookEvery{2};

using namespace std::chrono_literals;

constexpr const char* kRefused = "refused ";
constexpr const char* kReady = "ready ";
constexpr auto kLookForKey = 200ms;
constexpr auto kPollEvery = 1ms;

std::string own_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string hex(const UniqueId& id) {
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::optional<UniqueId> id_of(std::string_view text) {
  UniqueId id{};
  if (text.size() != 2 * sizeof id.bytes) return std::nullopt;
  for (std::size_t i = 0; i < sizeof id.bytes; ++i) {
    unsigned value = 0;
    const char* const at = text.data() + 2 * i;
    const auto [stop, error] = std::from_chars(at, at + 2, value, 16);
    if (error != std::errc() || stop != at + 2) return std::nullopt;
    id.bytes[i] = static_cast<char>(value);
  }
  return id;
}

GroupSetup refuse(std::string detail) {
  GroupSetup setup;
  setup.result = {CommStatus::aborted, -1, -1, std::move(detail)};
  setup.refused = true;
  return setup;
}

GroupSetup fail(CommStatus status, int rank, std::string detail) {
  GroupSetup setup;
  setup.result = {status, rank, -1, std::move(detail)};
  return setup;
}

GroupSetup fail_exchange(ErrorCode error, int rank, const std::string& what) {
  GroupSetup setup;
  setup.result = exchange_failure(error, rank, what);
  return setup;
}

std::string key_of(const CommOptions& options, int rank) {
  return fmt::format("{}/nccl/{}", options.group, rank);
}
std::string verdict_key(const CommOptions& options) { return options.group + "/nccl/verdict"; }

/// Rank 0 has read what all announced, and decides for all.
GroupSetup decide(const GroupOptions& options, const Announcement& own, const Library& library,
                  Exchange& exchange, Clock::time_point deadline, std::string& verdict) {
  const CommOptions& comm = options.comm;
  std::vector<Announcement> ranks{own};
  std::string refusal;
  for (int rank = 1; rank < comm.world_size && refusal.empty(); ++rank) {
    const std::string key = key_of(comm, rank);
    const auto text = exchange.get(key, deadline);
    if (!text)
      return fail_exchange(text.error(), rank,
                           fmt::format("waiting for rank {} (key {})", rank, key));
    const auto announced = Announcement::parse(*text);
    if (announced) {
      ranks.push_back(*announced);
    } else {
      refusal = fmt::format(
          "rank {} has another version of this program, or does not train on a GPU: "
          "start all ranks with the same program and --device",
          rank);
    }
  }
  if (refusal.empty()) refusal = why_not(ranks, options.shares_gpus);
  if (refusal.empty()) {
    UniqueId id{};
    if (const Status status = library.call().get_unique_id(&id); status != Status::success) {
      return fail(
          CommStatus::aborted, 0,
          fmt::format("ncclGetUniqueId on rank 0: {}", library.call().get_error_string(status)));
    }
    verdict = kReady + hex(id);
    for (const Announcement& rank : ranks) verdict += "\n" + rank.text();
  } else {
    verdict = kRefused + refusal;
  }
  const auto told = exchange.set(verdict_key(comm), verdict, deadline);
  if (!told) return fail_exchange(told.error(), 0, "storing NCCL's unique id");
  return {};
}

GroupSetup read_verdict(const std::string& verdict, const CommOptions& comm, UniqueId& id) {
  if (verdict.starts_with(kRefused)) return refuse(verdict.substr(std::strlen(kRefused)));
  std::istringstream lines(verdict);
  std::string line;
  std::getline(lines, line);
  const auto found = line.starts_with(kReady)
                         ? id_of(std::string_view(line).substr(std::strlen(kReady)))
                         : std::nullopt;
  GroupSetup setup;
  setup.group.emplace();
  while (std::getline(lines, line)) {
    const auto rank = Announcement::parse(line);
    if (!rank) break;
    setup.group->ranks.push_back(*rank);
  }
  if (!found || setup.group->ranks.size() != static_cast<std::size_t>(comm.world_size))
    return refuse("rank 0 has another version of this program: start all ranks with the same one");
  id = *found;
  return setup;
}

std::string begun_key(const CommOptions& options, int rank) {
  return fmt::format("{}/nccl/begun/{}", options.group, rank);
}

/// The deadline has passed. Names a rank that NCCL was never begun on, if there is one.
CommResult not_connected(const Group& group, const CommOptions& options, Exchange& exchange) {
  std::string why =
      "can every host reach the others? NCCL_SOCKET_IFNAME names the interface, NCCL_DEBUG=INFO "
      "tells more";
  int missing = -1;
  for (int rank = 0; rank < options.world_size && missing < 0; ++rank) {
    const auto begun = exchange.get(begun_key(options, rank), Clock::now() + kLookForKey);
    if (begun) continue;
    if (begun.error() != proto::Errc::timed_out) break;  // the store is gone, and with it the keys
    missing = rank;
    why = fmt::format("rank {} on {} has not begun NCCL; it hangs or is stopped", rank,
                      group.ranks[static_cast<std::size_t>(rank)].host);
  }
  return {CommStatus::timed_out, missing, -1,
          "NCCL has not connected all ranks by the deadline: " + why};
}

struct CallEnd {
  /// in_progress: it has not ended by the deadline, or before `peer` did.
  Status status = Status::success;
  int peer = -1;  ///< a rank of this host that has ended meanwhile
};

/// For a call that returns before it is done. `status`: what it returned. The communicator does not
/// block, and no other call of it is in progress.
CallEnd wait_for_call(const Functions& call, Comm comm, Status status, PeerWatch& peers,
                      Clock::time_point deadline) {
  while (status == Status::in_progress || status == Status::success) {
    const Status asked = call.comm_get_async_error(comm, &status);
    if (asked != Status::success) status = asked;
    if (status != Status::in_progress) break;
    const auto now = Clock::now();
    if (now >= deadline) break;
    if (const int peer = peers.ended(now); peer >= 0) return {status, peer};
    std::this_thread::sleep_for(kPollEvery);
  }
  return {status, -1};
}

/// NCCL's own meeting. It does not block, so that our deadline holds.
CommResult begin(Group& group, const UniqueId& id, const GroupOptions& options,
                 const Library& library, Exchange& exchange, Clock::time_point deadline) {
  const Functions& call = library.call();
  Config config;
  config.blocking = 0;
  if (options.shares_gpus) {
    // Both would like every multiprocessor of the one GPU, and wait for each other.
    config.max_ctas = 1;
  }
  Status status = call.comm_init_rank_config(&group.comm, options.comm.world_size, id,
                                             options.comm.rank, &config);
  // For a message alone: that the store is lost, others find out where it matters.
  static_cast<void>(exchange.set(begun_key(options.comm, options.comm.rank), "", deadline));
  PeerWatch peers(group.ranks, options.comm.rank);
  const CallEnd end = wait_for_call(call, group.comm, status, peers, deadline);
  status = end.status;
  if (end.peer >= 0) {
    const std::string why = fmt::format("rank {} ended while NCCL connected the ranks", end.peer);
    abort_comm(call, std::exchange(group.comm, nullptr), options.calls, why);
    return {CommStatus::aborted, end.peer, -1, why};
  }
  if (status == Status::in_progress) {
    // Not aborted: that would wait for whatever hangs, and the process ends next.
    group.comm = nullptr;
    return not_connected(group, options.comm, exchange);
  }
  if (status == Status::success) return {};
  std::string detail = fmt::format("ncclCommInitRankConfig: {}", call.get_error_string(status));
  if (group.comm != nullptr) {
    detail += fmt::format(" ({})", call.get_last_error(group.comm));
    abort_comm(call, std::exchange(group.comm, nullptr), options.calls, detail);
  }
  return {CommStatus::aborted, -1, -1, detail + "; NCCL_DEBUG=INFO tells more"};
}

}  // namespace

PeerWatch::PeerWatch(const std::vector<Announcement>& ranks, int own) {
  const ProcessIdentity& self = ranks[static_cast<std::size_t>(own)].process;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const ProcessIdentity& process = ranks[static_cast<std::size_t>(rank)].process;
    if (rank != own && process.boot_id == self.boot_id &&
        process.pid_namespace == self.pid_namespace)
      peers_.push_back({rank, ProcessWatch(process)});
  }
}

int PeerWatch::ended(Clock::time_point now) {
  if (ended_ >= 0 || now < next_look_) return ended_;
  next_look_ = now + kLookEvery;
  for (const Peer& peer : peers_)
    if (!peer.process.alive()) return ended_ = peer.rank;
  return -1;
}

pid_t PeerWatch::pid(int rank) const {
  for (const Peer& peer : peers_)
    if (peer.rank == rank) return peer.process.pid();
  return 0;
}

GroupSetup join_group(const GroupOptions& options, const Library& library, Exchange& exchange,
                      Clock::time_point deadline) {
  const CommOptions& comm = options.comm;
  const Announcement own{.process = own_identity(),
                         .host = own_host(),
                         .gpu = options.gpu,
                         .card = options.card,
                         .version = library.version(),
                         .world_size = comm.world_size,
                         .shards = comm.shards,
                         .order = comm.order,
                         .arena_floats = comm.arena_floats};
  std::string verdict;
  if (comm.rank == 0) {
    GroupSetup decided = decide(options, own, library, exchange, deadline, verdict);
    if (!decided.result.ok()) return decided;
  } else {
    const auto told = exchange.set(key_of(comm, comm.rank), own.text(), deadline);
    if (!told)
      return fail_exchange(told.error(), comm.rank, "storing key " + key_of(comm, comm.rank));
    const auto text = exchange.get(verdict_key(comm), deadline);
    if (!text) return fail_exchange(text.error(), 0, "waiting for NCCL's unique id from rank 0");
    verdict = *text;
  }
  UniqueId id{};
  GroupSetup setup = read_verdict(verdict, comm, id);
  if (!setup.group) return setup;
  setup.result = begin(*setup.group, id, options, library, exchange, deadline);
  if (!setup.result.ok()) setup.group.reset();
  return setup;
}

void destroy_comm(const Functions& call, Comm comm, cuda::CallWatch* calls) {
  const cuda::CallWatch::Scope scope(calls, "ncclCommDestroy");
  (void)call.comm_destroy(comm);
}

void abort_comm(const Functions& call, Comm comm, cuda::CallWatch* calls, const std::string& why) {
  if (calls != nullptr) calls->happened(why);
  // Not by its name: in a log that is a sign of a lost peer, but this rank may have failed itself.
  const cuda::CallWatch::Scope scope(calls, "the end of NCCL");
  (void)call.comm_abort(comm);
}

}  // namespace ddprun::trainer::nccl
