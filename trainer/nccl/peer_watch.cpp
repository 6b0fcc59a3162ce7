#include "trainer/nccl/peer_watch.hpp"

#include <chrono>

namespace ddprun::trainer::nccl {
namespace {

constexpr std::chrono::milliseconds kLookEvery{2};

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

}  // namespace ddprun::trainer::nccl
