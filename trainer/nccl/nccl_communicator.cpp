#include "trainer/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "trainer/error.hpp"
#include "trainer/nccl/failures.hpp"
#include "trainer/nccl/gradient_sum.hpp"
#include "trainer/nccl/host_bytes.hpp"
#include "trainer/nccl/nccl_group.hpp"
#include "trainer/nccl/started_sums.hpp"

namespace ddprun::trainer::nccl {
namespace {

using namespace std::chrono_literals;
using cuda::Stream;

/// A rank that has ended may have done its part of what is waited for: that may still arrive.
constexpr auto kLastWords = 250ms;
constexpr auto kSpin = 200us;
constexpr auto kSleep = 50us;

/// Whether a condition holds now or within this time.
template <class Condition>
bool comes_within(Clock::duration time, Condition condition) {
  const auto until = Clock::now() + time;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclSettings settings, const Group& group,
                   std::unique_ptr<GradientSum> gradients)
      : settings_(std::move(settings)),
        gpu_(settings_.gpu),
        call_(settings_.library->call()),
        comm_(group.comm),
        peers_(group.ranks, settings_.comm.rank),
        bytes_(gpu_, world_size()),
        computed_(gpu_.make_event()),
        events_(gpu_),
        sums_(gpu_, events_),
        gradients_(std::move(gradients)) {
    gpu_.synchronize(Stream::compute);  // the tables of the sums are there for every stream
    gpu_.set_watch([this](Clock::duration waited) {
      look(Clock::now());
      look_at_own_work(waited);
    });
  }

  ~NcclCommunicator() override {
    gpu_.set_watch({});
    if (comm_ == nullptr) return;
    // In order only if nothing is under way and nobody has left: NCCL would wait for the others.
    if (failure_ || aborted_ || !sums_.empty() || peers_.ended(Clock::now()) >= 0) {
      abort_comm(call_, comm_, settings_.calls, abort_reason_);
    } else {
      destroy_comm(call_, comm_, settings_.calls);
    }
  }

  [[nodiscard]] int rank() const override { return settings_.comm.rank; }
  [[nodiscard]] int world_size() const override { return settings_.comm.world_size; }
  [[nodiscard]] SumOrder order() const override { return settings_.comm.order; }
  std::span<float> arena(int slot) override { return gradients_->arena(slot); }

  Ticket start(int bucket, Range range) override {
    DDPRUN_ASSERT(range.begin <= range.end && range.end <= settings_.comm.arena_floats,
                  "a range of the arena");
    ++last_started_;
    if (is_over()) return last_started_;
    phase(CommPhase::before_start, bucket);
    const cuda::Event computed = events_.take();
    after_compute(computed);
    starting_ = {bucket, computed};
    gradients_->start(range, [this](const GradientSum::Calls& calls) { return in_group(calls); });
    starting_.reset();
    sums_.add(last_started_, bucket, computed, Clock::now());
    phase(CommPhase::after_ready, bucket);
    return last_started_;
  }

  void progress() override { look(Clock::now()); }

  CommResult finish(Ticket ticket, Clock::time_point /*deadline*/) override {
    DDPRUN_ASSERT(ticket <= last_started_, "a ticket that start() returned");
    look(Clock::now());
    if (is_over()) return result();
    sums_.follow(ticket);
    return {};
  }
  [[nodiscard]] bool finish_waits() const override { return false; }

  CommResult broadcast(std::span<std::byte> bytes, int root, Clock::time_point deadline) override {
    return host_call(CommPhase::in_broadcast, deadline, [&] {
      for (std::size_t at = 0; at < bytes.size(); at += bytes_.piece_bytes()) {
        const auto piece = bytes.subspan(at, std::min(bytes_.piece_bytes(), bytes.size() - at));
        if (root == rank()) bytes_.send(piece);
        issue("ncclBroadcast", [&] {
          return call_.broadcast(bytes_.mine(), bytes_.mine(), piece.size(), DataType::bytes, root,
                                 comm_, stream());
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
    return host_call(CommPhase::in_barrier, deadline, [&] { gather(mine, all, deadline); });
  }

  CommResult barrier(Clock::time_point deadline) override {
    return host_call(CommPhase::in_barrier, deadline, [&] {
      std::vector<std::byte> all(static_cast<std::size_t>(world_size()));
      gather(std::span(all).first(1), all, deadline);
    });
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(abort_mutex_);
    if (aborted_) return;
    abort_reason_ = reason;
    aborted_ = true;
  }

 private:
  struct Starting {
    int bucket;
    cuda::Event computed;
  };
  struct Work {
    Awaited awaited;
    cuda::Event computed;  ///< before it, on this rank's compute stream
  };

  [[nodiscard]] NativeStream stream() { return gpu_.native(Stream::communication); }
  void phase(CommPhase at, int bucket) {
    if (settings_.comm.on_phase) settings_.comm.on_phase(at, bucket);
  }

  // ---- what NCCL is given ----

  /// What the communication stream is given from now on comes after what the compute stream has.
  void after_compute(cuda::Event computed) {
    gpu_.record(computed, Stream::compute);
    gpu_.wait(Stream::communication, computed);
  }

  /// Nothing is waited for or given up before the group has ended.
  bool in_group(const GradientSum::Calls& work) {
    if (is_over()) return false;
    require(call_.group_start(), "ncclGroupStart");
    if (is_over()) return false;
    GroupCalls calls(call_, comm_, stream());
    work(calls);
    const Status ended = call_.group_end();
    const GroupCalls::Failure& failure = calls.failure();
    if (failure.status != Status::success) {
      fail_of(failure.status, failure.name, asked_for());
    } else {
      require(ended, "ncclGroupEnd");
    }
    return !is_over();
  }

  void gather(std::span<const std::byte> mine, std::span<std::byte> all,
              Clock::time_point deadline) {
    for (std::size_t at = 0; at < mine.size(); at += bytes_.piece_bytes()) {
      const std::size_t size = std::min(bytes_.piece_bytes(), mine.size() - at);
      bytes_.send(mine.subspan(at, size));
      issue("ncclAllGather", [&] {
        return call_.all_gather(bytes_.mine(), bytes_.all(), size, DataType::bytes, comm_,
                                stream());
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
    if (!is_over()) require(call(), name);
  }
  /// A call that puts off its answer is given the time of a sum.
  void require(Status status, const char* name) {
    const auto began = Clock::now();
    while (status == Status::in_progress && !is_over()) {
      if (call_.comm_get_async_error(comm_, &status) != Status::success) break;
      if (status != Status::in_progress) break;
      look(Clock::now());
      const auto waited = Clock::now() - began;
      if (waited >= settings_.timeout) return fail_in_time(asked_for(), began);
      // Most calls are answered so by NCCL; meanwhile backward gives the GPU no work.
      if (waited > kSpin) std::this_thread::sleep_for(kSleep);
    }
    if (status != Status::success && !is_over()) fail_of(status, name, asked_for());
  }

  // ---- waiting ----

  template <class Work>
  CommResult host_call(CommPhase at, Clock::time_point deadline, Work work) {
    look(Clock::now());
    if (is_over()) return result();
    phase(at, -1);
    deadline_ = deadline;
    after_compute(computed_);
    work();
    deadline_.reset();
    return is_over() ? result() : CommResult{};
  }

  /// Until the communication stream is done. False: something failed.
  bool wait_for_host(Clock::time_point deadline) {
    if (is_over()) return false;
    const auto began = Clock::now();
    const cuda::Event done = events_.take();
    gpu_.record(done, Stream::communication);
    while (!gpu_.has_come(done)) {
      const auto now = Clock::now();
      look(now);
      if (is_over()) return false;
      if (now >= deadline) {
        fail_in_time(under_way(), began);
        return false;
      }
      if (now - began > kSpin) std::this_thread::sleep_for(kSleep);
    }
    events_.give_back(done);
    sums_.forget_all();
    return true;
  }

  // ---- what goes wrong ----

  [[nodiscard]] bool is_over() const { return failure_.has_value(); }
  [[nodiscard]] CommResult result() const { return *failure_; }

  /// Cheap; finds sums that are done, errors of NCCL, peers that are gone, sums that take too long.
  void look(Clock::time_point now) {
    if (is_over()) return;
    if (aborted_) {
      const std::lock_guard lock(abort_mutex_);
      return fail({CommStatus::aborted, -1, -1,
                   fmt::format("aborted by rank {}: {}", rank(), abort_reason_)});
    }
    sums_.forget_done(now);
    Status status = Status::success;
    if (call_.comm_get_async_error(comm_, &status) != Status::success ||
        (status != Status::success && status != Status::in_progress))
      return fail_of(status, "NCCL", under_way());
    const bool is_waiting = !sums_.empty() || deadline_;
    if (const int gone = is_waiting ? peers_.ended(now) : -1; gone >= 0) {
      if (!gone_since_) gone_since_ = now;
      if (now - *gone_since_ > kLastWords) return fail_of_peer(gone);
    }
    if (!sums_.empty() && now - sums_.oldest().since > settings_.timeout)
      fail_in_time(under_way(), sums_.oldest().since);
  }

  /// Where the host waits for this rank's GPU alone, and no sum or meeting has a deadline.
  void look_at_own_work(Clock::duration waited) {
    if (is_over() || !sums_.empty() || starting_ || deadline_ || waited < settings_.timeout) return;
    fail_of_own_work({}, waited);
  }

  /// What the communication stream does first: the oldest sum, or the one that NCCL is being given,
  /// or the meeting behind them.
  [[nodiscard]] Work under_way() const {
    if (!sums_.empty()) return {{.bucket = sums_.oldest().bucket}, sums_.oldest().computed};
    if (starting_) return {{.bucket = starting_->bucket}, starting_->computed};
    return {{.is_meeting = deadline_.has_value()}, computed_};
  }
  /// What a call of NCCL is for that is made now.
  [[nodiscard]] Work asked_for() const {
    return starting_ ? Work{{.bucket = starting_->bucket}, starting_->computed} : under_way();
  }

  void fail_of_peer(int gone) { fail(peer_ended(gone, peers_.pid(gone), under_way().awaited)); }
  void fail_of(Status status, const char* name, const Work& work) {
    // A peer that is gone is the cause of what NCCL tells.
    int gone = -1;
    if (comes_within(kLastWords, [&] { return (gone = peers_.ended(Clock::now())) >= 0; }))
      return fail_of_peer(gone);
    const cuda::GpuFacts facts = gpu_.facts();
    fail(nccl_failed(name, work.awaited, fmt::format("{} {}", facts.name, facts.uuid),
                     call_.get_error_string(status), call_.get_last_error(comm_)));
  }
  void fail_in_time(const Work& work, Clock::time_point since) {
    const std::chrono::duration<double> waited = Clock::now() - since;
    // What the GPU does just now is no hang.
    if (comes_within(kLastWords, [&] { return gpu_.has_come(work.computed); }))
      return fail(waited_too_long(rank(), work.awaited, waited));
    fail_of_own_work(work.awaited, waited);
  }
  /// Nothing can be returned: the call that waits for this GPU never ends.
  void fail_of_own_work(const Awaited& awaited, std::chrono::duration<double> waited) {
    const std::string text = own_work_hangs(awaited, waited);
    failure_ = CommResult{CommStatus::aborted, rank(), awaited.bucket, text};
    comm_ = nullptr;  // not aborted: NCCL would wait for its kernels, which come after that work
    throw DeviceError(text);
  }
  /// Ends what is under way, so that the GPU's streams go on.
  void fail(CommResult why) {
    failure_ = std::move(why);
    abort_comm(call_, std::exchange(comm_, nullptr), settings_.calls, failure_->detail);
  }

  const NcclSettings settings_;
  cuda::Gpu& gpu_;
  const Functions& call_;
  Comm comm_;
  PeerWatch peers_;
  HostBytes bytes_;

  cuda::Event computed_;  // before the last call in which the host waits
  EventPool events_;
  StartedSums sums_;
  std::unique_ptr<GradientSum> gradients_;  // freed after the communicator has ended
  Ticket last_started_ = 0;
  std::optional<Starting> starting_;           // the sum that NCCL is being given
  std::optional<Clock::time_point> deadline_;  // of a call in which the host waits
  std::optional<Clock::time_point> gone_since_;
  std::optional<CommResult> failure_;

  std::mutex abort_mutex_;
  std::atomic<bool> aborted_{false};
  std::string abort_reason_;
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
    setup.communicator =
        std::make_unique<NcclCommunicator>(settings, *joined.group, std::move(gradients));
  } catch (...) {  // No memory for events, say; nobody else would end NCCL's threads.
    abort_comm(settings.library->call(), joined.group->comm, settings.calls, "");
    throw;
  }
  return setup;
}

}  // namespace ddprun::trainer::nccl
