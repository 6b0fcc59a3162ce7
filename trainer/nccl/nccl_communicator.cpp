#include "trainer/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "trainer/nccl/gradient_sum.hpp"
#include "trainer/nccl/nccl_group.hpp"
#include "trainer/nccl/under_way.hpp"
#include "trainer/nccl/watched_comm.hpp"

namespace ddprun::trainer::nccl {
namespace {

using cuda::Stream;

/// Bytes of the host on their way to other hosts: through pinned memory and the GPU's, on the
/// communication stream. Room for one piece of this rank, and one of each rank, made when it is
/// first needed.
class HostBytes {
 public:
  HostBytes(cuda::Gpu& gpu, int ranks)
      : gpu_(gpu),
        ranks_(static_cast<std::size_t>(ranks)),
        piece_bytes_(std::max(kPieceBytesMin, kBytes / ranks_)) {}
  ~HostBytes() {
    if (all_ != nullptr) gpu_.release(all_);
    if (mine_ != nullptr) gpu_.release(mine_);
    if (pinned_ != nullptr) gpu_.release_pinned(pinned_);
  }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }
  /// Bytes of the GPU's memory that it takes.
  static std::size_t gpu_bytes(int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    return (1 + count) * std::max(kPieceBytesMin, kBytes / count);
  }

  /// This rank's bytes, in the GPU's memory.
  [[nodiscard]] std::byte* mine() {
    make_room();
    return mine_;
  }
  [[nodiscard]] std::byte* all() { return all_; }

  /// `bytes` to mine(). What was taken before must have arrived.
  void send(std::span<const std::byte> bytes) {
    make_room();
    std::memcpy(pinned_, bytes.data(), bytes.size());
    gpu_.copy_in(cuda::Stream::communication, pinned_, mine_, bytes.size());
  }
  void receive_mine(std::size_t size) {
    gpu_.copy_out(cuda::Stream::communication, mine_, pinned_, size);
  }
  /// One piece of `size` of each rank.
  void receive_all(std::size_t size) {
    gpu_.copy_out(cuda::Stream::communication, all_, pinned_, ranks_ * size);
  }
  /// What was received, once it has arrived.
  void take(std::span<std::byte> bytes, std::size_t at = 0) const {
    std::memcpy(bytes.data(), pinned_ + at, bytes.size());
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;
  static constexpr std::size_t kPieceBytesMin = 4096;

  void make_room() {
    if (mine_ != nullptr) return;
    mine_ = gpu_.allocate(piece_bytes_);
    all_ = gpu_.allocate(ranks_ * piece_bytes_);
    pinned_ = gpu_.allocate_pinned(ranks_ * piece_bytes_);
  }

  cuda::Gpu& gpu_;
  const std::size_t ranks_;
  const std::size_t piece_bytes_;
  std::byte* mine_ = nullptr;
  std::byte* all_ = nullptr;
  std::byte* pinned_ = nullptr;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclSettings settings, const Group& group,
                   std::unique_ptr<GradientSum> gradients)
      : settings_(std::move(settings)),
        gpu_(settings_.gpu),
        bytes_(gpu_, world_size()),
        gradients_(std::move(gradients)),
        work_(gpu_),
        comm_(settings_, group, work_) {
    gpu_.set_watch([this](Clock::duration waited) {
      look();
      comm_.look_at_own_work(waited);
    });
  }
  ~NcclCommunicator() override { gpu_.set_watch({}); }

  [[nodiscard]] int rank() const override { return settings_.comm.rank; }
  [[nodiscard]] int world_size() const override { return settings_.comm.world_size; }
  [[nodiscard]] SumOrder order() const override { return settings_.comm.order; }
  std::span<float> arena(int slot) override { return gradients_->arena(slot); }

  Ticket start(int bucket, Range range) override {
    DDPRUN_ASSERT(range.begin <= range.end && range.end <= settings_.comm.arena_floats,
                  "a range of the arena");
    ++last_started_;
    if (comm_.is_over()) return last_started_;
    phase(CommPhase::before_start, bucket);
    work_.start(bucket);
    gradients_->start(range,
                      [this](const GradientSum::Calls& calls) { return comm_.in_group(calls); });
    work_.started(last_started_, Clock::now());
    phase(CommPhase::after_ready, bucket);
    return last_started_;
  }

  void progress() override { look(); }

  CommResult finish(Ticket ticket, Clock::time_point /*deadline*/) override {
    DDPRUN_ASSERT(ticket <= last_started_, "a ticket that start() returned");
    look();
    if (comm_.is_over()) return comm_.result();
    work_.follow(ticket);
    return {};
  }
  [[nodiscard]] bool finish_waits() const override { return false; }

  CommResult broadcast(std::span<std::byte> bytes, int root, Clock::time_point deadline) override {
    return host_call(CommPhase::in_broadcast, [&] {
      for (std::size_t at = 0; at < bytes.size(); at += bytes_.piece_bytes()) {
        const auto piece = bytes.subspan(at, std::min(bytes_.piece_bytes(), bytes.size() - at));
        if (root == rank()) bytes_.send(piece);
        issue("ncclBroadcast", [&] {
          return comm_.call().broadcast(bytes_.mine(), bytes_.mine(), piece.size(), DataType::bytes,
                                        root, comm_.get(), stream());
        });
        if (root != rank()) bytes_.receive_mine(piece.size());
        if (!wait_for_host(deadline)) return;
        if (root != rank()) bytes_.take(piece);
      }
    });
  }

  CommResult all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                        Clock::time_point deadline) override {
    DDPRUN_ASSERT(all.size() == mine.size() * static_cast<std::size_t>(world_size()),
                  "one piece for each rank");
    return host_call(CommPhase::in_barrier, [&] { gather(mine, all, deadline); });
  }

  CommResult barrier(Clock::time_point deadline) override {
    return host_call(CommPhase::in_barrier, [&] {
      std::vector<std::byte> all(static_cast<std::size_t>(world_size()));
      gather(std::span(all).first(1), all, deadline);
    });
  }

  void abort(const std::string& reason) override { comm_.abort(reason); }

 private:
  [[nodiscard]] NativeStream stream() { return gpu_.native(Stream::communication); }
  void phase(CommPhase at, int bucket) {
    if (settings_.comm.on_phase) settings_.comm.on_phase(at, bucket);
  }
  void look() { comm_.look(Clock::now()); }

  void gather(std::span<const std::byte> mine, std::span<std::byte> all,
              Clock::time_point deadline) {
    for (std::size_t at = 0; at < mine.size(); at += bytes_.piece_bytes()) {
      const std::size_t size = std::min(bytes_.piece_bytes(), mine.size() - at);
      bytes_.send(mine.subspan(at, size));
      issue("ncclAllGather", [&] {
        return comm_.call().all_gather(bytes_.mine(), bytes_.all(), size, DataType::bytes,
                                       comm_.get(), stream());
      });
      bytes_.receive_all(size);
      if (!wait_for_host(deadline)) return;
      for (int rank = 0; rank < world_size(); ++rank) {
        const std::size_t to = static_cast<std::size_t>(rank) * mine.size() + at;
        bytes_.take(all.subspan(to, size), static_cast<std::size_t>(rank) * size);
      }
    }
  }

  template <class Call>
  void issue(const char* name, Call call) {
    if (!comm_.is_over()) comm_.require(call(), name);
  }

  template <class Work>
  CommResult host_call(CommPhase at, Work work) {
    look();
    if (comm_.is_over()) return comm_.result();
    phase(at, -1);
    work_.begin_meeting();
    work();
    work_.end_meeting();
    return comm_.is_over() ? comm_.result() : CommResult{};
  }

  /// Until the communication stream is done. False: something failed.
  bool wait_for_host(Clock::time_point deadline) {
    if (comm_.is_over()) return false;
    const auto began = Clock::now();
    const cuda::Event end = work_.record_end();
    while (!gpu_.has_come(end)) {
      look();
      if (comm_.is_over()) return false;
      const auto now = Clock::now();
      if (now >= deadline) {
        comm_.fail_in_time(work_.first(), began);
        return false;
      }
      if (now - began > kSpin) std::this_thread::sleep_for(kSleep);
    }
    work_.forget_all(end);
    return true;
  }

  const NcclSettings settings_;
  cuda::Gpu& gpu_;
  HostBytes bytes_;
  std::unique_ptr<GradientSum> gradients_;
  UnderWay work_;
  WatchedComm comm_;  // ends before what is above, which it may still use
  Ticket last_started_ = 0;
};

}  // namespace

std::size_t gpu_bytes_of_sums(const CommOptions& options) {
  const bool is_tree = options.order == SumOrder::tree;
  return (is_tree ? TreeSum::received_bytes(options) : 0) +
         HostBytes::gpu_bytes(options.world_size);
}

CommSetup make_nccl_communicator(const NcclSettings& settings, Exchange& exchange,
                                 Clock::time_point deadline) {
  const cuda::GpuFacts facts = settings.gpu.facts();
  // Before the ranks meet: if there is too little memory, a rank fails with the bytes that it
  // wanted, and not within NCCL.
  auto gradients = std::make_unique<GradientSum>(settings.gpu, settings.comm);
  GroupSetup joined = join_group({.comm = settings.comm,
                                  .gpu = facts.uuid,
                                  .card = facts.card,
                                  .shares_gpus = settings.shares_gpus,
                                  .calls = settings.calls},
                                 *settings.library, exchange, deadline);
  CommSetup setup{.communicator = {}, .result = joined.result, .refused = joined.refused};
  if (!joined.group) return setup;
  setup.how = fmt::format("NCCL {}", version_text(settings.library->version()));
  try {
    settings.gpu.synchronize(Stream::compute);  // the tables of the sums are there for all streams
    setup.communicator =
        std::make_unique<NcclCommunicator>(settings, *joined.group, std::move(gradients));
  } catch (...) {  // No memory for events, say; nobody else would end NCCL's threads.
    abort_comm(settings.library->call(), joined.group->comm, settings.calls, "");
    throw;
  }
  return setup;
}

}  // namespace ddprun::trainer::nccl
