#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/service/journal_format.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

constexpr const char* kRunId = "job";
constexpr const char* kPath = "direct";
constexpr std::chrono::hours kBegin{1};

/// What another process would make of the job must be what this one makes of it.
bool is_same_job(const rdzv::Job* left, const rdzv::Job* right) {
  if (left == nullptr || right == nullptr) return left == right;
  const rdzv::Membership* a = left->membership();
  const rdzv::Membership* b = right->membership();
  if ((a == nullptr) != (b == nullptr) || left->epoch() != right->epoch() ||
      left->sessions().size() != right->sessions().size() || left->is_over() != right->is_over())
    return false;
  return a == nullptr ||
         (a->state() == b->state() && a->nodes() == b->nodes() &&
          a->next_round() == b->next_round() && a->restart_count() == b->restart_count());
}

/// One whenever a job is at rest.
rdzv::ServiceSettings with_snapshots() {
  rdzv::ServiceSettings settings;
  settings.snapshots = {0, 0};
  return settings;
}

/// A service that is told lines: a digit and a message on the connection of that number, `-` and a
/// digit for its end (`--` for one by reset), `+` and milliseconds that pass.
class ToldService {
 public:
  void tell(std::string_view line) {
    if (line.empty()) return;
    const char what = line[0];
    line.remove_prefix(1);
    if (what >= '0' && what <= '9') {
      say(static_cast<rdzv::ConnectionId>(what - '0'), line);
    } else if (what == '-') {
      const bool cleanly = !line.starts_with('-');
      if (!cleanly) line.remove_prefix(1);
      if (!line.empty()) end(static_cast<rdzv::ConnectionId>(line[0]), cleanly);
    } else if (what == '+') {
      std::uint32_t milliseconds = 0;
      std::from_chars(line.data(), line.data() + line.size(), milliseconds);
      pass(std::chrono::milliseconds(milliseconds % 100'000));
    }
  }

  void check_journal() const {
    const rdzv::JournalContent content = rdzv::read_journal(journal_);
    DDPRUN_ASSERT(journal_.empty() || content.state == rdzv::JournalContent::State::whole,
                  "a journal that was written is whole");
    rdzv::ServiceCore again({}, now_);
    for (const rdzv::JobRecord& record : content.records) again.replay(record);
    static_cast<void>(again.begin(now_));
    DDPRUN_ASSERT(journal_.empty() || is_same_job(core_.job(kRunId), again.job(kRunId)),
                  "a journal brings back what was there");
  }

 private:
  void say(rdzv::ConnectionId number, std::string_view body) {
    auto message = proto::decode_client_message(body);
    if (!message) return;
    const auto open = open_.try_emplace(number, next_);
    if (open.second)
      take(core_.on(rdzv::ConnectionOpened{next_++, kRunId, "10.0.0.1", kPath}, now_));
    if (auto* resume = std::get_if<proto::Resume>(&*message)) resume->path = kPath;
    take(core_.on(rdzv::ClientSaid{open.first->second, std::move(*message)}, now_));
  }
  void end(rdzv::ConnectionId digit, bool cleanly) {
    const auto open = open_.find(digit - '0');
    if (open == open_.end()) return;
    take(core_.on(rdzv::ConnectionEnded{open->second, cleanly}, now_));
    open_.erase(open);
  }
  void pass(std::chrono::milliseconds time) {
    constexpr int kTurnsMax = 1000;
    const auto end = now_ + time;
    for (int turn = 0; turn < kTurnsMax && core_.deadline() && *core_.deadline() <= end; ++turn) {
      now_ = std::max(now_, *core_.deadline());
      take(core_.on(rdzv::DeadlinePassed{}, now_));
    }
    now_ = end;
  }
  void take(const rdzv::ServiceActions& actions) {
    for (const rdzv::JobRecord& record : actions.records) {
      if (journal_.empty()) journal_ = rdzv::journal_head(kRunId);
      rdzv::append_journal_frame(journal_, record);
    }
    for (const rdzv::JobSnapshot& snapshot : actions.snapshots)
      journal_ = rdzv::journal_of(snapshot);
    for (const rdzv::ServiceSend& send : actions.sends)
      DDPRUN_ASSERT(proto::decode_service_message(proto::encode(send.message)).has_value(),
                    "what is sent can be read");
    for (const rdzv::ConnectionId closed : actions.closes)
      std::erase_if(open_, [closed](const auto& one) { return one.second == closed; });
    if (!actions.forget.empty()) journal_.clear();
  }

  rdzv::Clock::time_point now_{kBegin};
  rdzv::ServiceCore core_{with_snapshots(), now_};
  std::map<rdzv::ConnectionId, rdzv::ConnectionId> open_;  // by the number in the line
  rdzv::ConnectionId next_ = 1;
  std::string journal_;
};

}  // namespace

void fuzz_service(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ToldService service;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    service.tell(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  service.check_journal();
}

}  // namespace ddprun::test
