#include "trainer/nccl/registration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "trainer/comm/exchange_failure.hpp"
#include "trainer/nccl/call_wait.hpp"
#include "trainer/nccl/end_comm.hpp"
#include "trainer/nccl/peer_watch.hpp"

namespace ddprun::trainer::nccl {
namespace {

constexpr const char* kYes = "yes";
constexpr const char* kNo = "no";

const char* function_of(BufferKind kind) {
  return kind == BufferKind::windows ? "ncclCommWindowRegister" : "ncclCommRegister";
}

/// What switches it off.
const char* remedy_of(BufferKind kind) {
  return kind == BufferKind::windows ? "NCCL_WIN_ENABLE=0 on all ranks does without windows"
                                     : "NCCL_LOCAL_REGISTER=0 on all ranks does without it";
}

class Registrar {
 public:
  Registrar(const RegistrationOptions& options, const Functions& call, Group& group,
            Exchange& exchange, Clock::time_point deadline)
      : options_(options),
        call_(call),
        group_(group),
        exchange_(exchange),
        deadline_(deadline),
        peers_(group.ranks, options.comm.rank) {}

  RegistrationSetup run() {
    for (BufferKind kind = common_buffers(group_.ranks); kind != BufferKind::plain;
         kind = static_cast<BufferKind>(static_cast<int>(kind) - 1)) {
      Registration mine = register_as(kind);
      if (!setup_.result.ok()) return std::move(setup_);
      const bool is_common = agree(kind, mine.is_whole());
      if (!setup_.result.ok()) return std::move(setup_);
      if (is_common) {
        setup_.registration = std::move(mine);
        return std::move(setup_);
      }
      mine.end(options_.calls);
    }
    return std::move(setup_);
  }

 private:
  /// Not whole, or setup_.result not done: something failed.
  Registration register_as(BufferKind kind) {
    DDPRUN_ASSERT(kind != BufferKind::windows || options_.comm.order == SumOrder::chain,
                  "all ranks have as many arenas");
    Registration mine(call_, group_.comm, kind);
    for (const SumBuffers::Piece& piece : options_.buffers.pieces()) {
      void** const handle = mine.add();
      const Status status = begin(kind, piece, handle);
      const CallEnd end = wait_for_call(call_, group_.comm, status, peers_, deadline_);
      if (end.peer >= 0) {
        abort({CommStatus::aborted, end.peer, -1,
               fmt::format("rank {} ended while NCCL registered the gradients", end.peer)});
      } else if (end.status == Status::in_progress) {
        leave(kind, mine);
      } else if (end.status != Status::success) {
        fail(kind, end.status);
      } else {
        continue;
      }
      break;
    }
    return mine;
  }

  Status begin(BufferKind kind, const SumBuffers::Piece& piece, void** handle) {
    const cuda::CallWatch::Scope scope(options_.calls, function_of(kind));
    if (kind == BufferKind::registered)
      return call_.comm_register(group_.comm, piece.data, piece.bytes, handle);
    return call_.comm_window_register(group_.comm, piece.data, piece.bytes,
                                      reinterpret_cast<Window*>(handle), kSymmetricWindow);
  }

  [[nodiscard]] std::string where(BufferKind kind) const {
    return fmt::format("{} on rank {} ({})", function_of(kind), options_.comm.rank, options_.gpu);
  }
  void abort(CommResult why) {
    abort_comm(call_, std::exchange(group_.comm, nullptr), options_.calls, why.detail);
    setup_.result = std::move(why);
  }
  void leave(BufferKind kind, Registration& mine) {
    // Not aborted: that would wait for whatever hangs, and the process ends next.
    group_.comm = nullptr;
    mine.leave();
    setup_.is_left = true;
    setup_.result = {CommStatus::timed_out, -1, -1,
                     fmt::format("NCCL has not registered the gradients of all ranks by the "
                                 "deadline: {} has not ended; a rank hangs, or NCCL does: {}, "
                                 "NCCL_DEBUG=INFO tells more",
                                 where(kind), remedy_of(kind))};
  }
  void fail(BufferKind kind, Status status) {
    const std::string what =
        fmt::format("{} failed: {} ({})", where(kind), call_.get_error_string(status),
                    call_.get_last_error(group_.comm));
    if (kind == BufferKind::windows) {
      abort({CommStatus::aborted, -1, -1,
             fmt::format("{}; {}, NCCL_DEBUG=INFO tells more", what, remedy_of(kind))});
    } else {
      setup_.warning =
          fmt::format("{}; all ranks go on with plain buffers ({})", what, remedy_of(kind));
    }
  }

  /// Whether all ranks have it.
  bool agree(BufferKind kind, bool has_mine) {
    const int rank = options_.comm.rank;
    const std::string prefix = fmt::format("{}/nccl/{}/", options_.comm.group, text_of(kind));
    const std::string all = prefix + "all";
    if (rank != 0) {
      if (!tell(prefix + std::to_string(rank), has_mine)) return false;
      return is_told(all, 0);
    }
    bool is_common = has_mine;
    for (int other = 1; other < options_.comm.world_size && setup_.result.ok(); ++other)
      is_common = is_told(prefix + std::to_string(other), other) && is_common;
    return setup_.result.ok() && tell(all, is_common) && is_common;
  }
  bool tell(const std::string& key, bool has) {
    const auto told = exchange_.set(key, has ? kYes : kNo, deadline_);
    if (!told) abort(exchange_failure(told.error(), options_.comm.rank, "storing key " + key));
    return told.has_value();
  }
  bool is_told(const std::string& key, int rank) {
    const auto text = exchange_.get(key, deadline_);
    if (!text)
      abort(exchange_failure(text.error(), rank,
                             fmt::format("waiting for rank {} (key {})", rank, key)));
    return text && *text == kYes;
  }

  const RegistrationOptions& options_;
  const Functions& call_;
  Group& group_;
  Exchange& exchange_;
  const Clock::time_point deadline_;
  PeerWatch peers_;
  RegistrationSetup setup_;
};

}  // namespace

bool Registration::is_whole() const {
  return std::all_of(handles_.begin(), handles_.end(),
                     [](const auto& handle) { return *handle != nullptr; });
}

void Registration::end(cuda::CallWatch* calls) {
  const cuda::CallWatch::Scope scope(calls, "the deregistration of NCCL's buffers");
  for (const auto& handle : handles_) {
    if (*handle == nullptr) continue;
    if (kind_ == BufferKind::windows) {
      (void)call_->comm_window_deregister(comm_, static_cast<Window>(*handle));
    } else {
      (void)call_->comm_deregister(comm_, *handle);
    }
  }
  handles_.clear();
  kind_ = BufferKind::plain;
}

void Registration::leave() {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<void*>> left;
  const std::lock_guard lock(mutex);
  std::move(handles_.begin(), handles_.end(), std::back_inserter(left));
  handles_.clear();
}

RegistrationSetup register_for_all(const RegistrationOptions& options, const Functions& call,
                                   Group& group, Exchange& exchange, Clock::time_point deadline) {
  return Registrar(options, call, group, exchange, deadline).run();
}

}  // namespace ddprun::trainer::nccl
