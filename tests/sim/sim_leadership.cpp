#include "tests/sim/sim_leadership.hpp"

#include <optional>
#include <utility>

namespace ddprun::sim {

using namespace std::chrono_literals;
using namespace rdzv;

namespace {

constexpr Etcd::Limit kCallLimit{2'000};  // as EtcdLeader's

LeadershipSettings settings_of(const std::string& place) {
  LeadershipSettings settings;
  settings.prefix = SimEtcd::kPrefix;
  settings.place = place;
  return settings;
}

}  // namespace

SimLeadership::SimLeadership(World& world, SimEtcd& etcd, HostClock clock, const std::string& place,
                             std::function<bool()> is_cut, std::function<void()> changed)
    : world_(world),
      etcd_(etcd),
      clock_(clock),
      settings_(settings_of(place)),
      is_cut_(std::move(is_cut)),
      changed_(std::move(changed)),
      leadership_(settings_, clock.now()) {}

// ---- from any thread of the process ----

void SimLeadership::lead(Duration clock_shift, EtcdRevision clock_revision) {
  leadership_.lead(clock_shift, clock_revision);
  go_on();
}

void SimLeadership::stand_again() {
  leadership_.stand_again(clock_.now());
  go_on();
}

void SimLeadership::lose(const std::string& reason) {
  leadership_.lose(reason);
  changed_();
}

bool SimLeadership::may_answer() const {
  const auto until = leadership_.answers_until();
  return until && clock_.now() < *until;
}

bool SimLeadership::is_over() const {
  const Leadership::Role role = leadership_.role();
  return is_dead_ || (role != Leadership::Role::elected && role != Leadership::Role::leading);
}

// ---- the thread that keeps the lease ----

void SimLeadership::go_on() {
  if (is_asking_ || is_frozen_ || is_dead_) return;
  const auto request = leadership_.next(clock_.now());
  changed_();
  if (request) return ask(*request);
  const Clock::time_point next = leadership_.next_at();
  if (next == Clock::time_point::max()) return;
  world_.at(clock_.in_world(next), [self = shared_from_this(), step = ++steps_] {
    if (step == self->steps_) self->go_on();
  });
}

void SimLeadership::thaw() {
  is_frozen_ = false;
  if (is_dead_) return;
  if (auto take = std::exchange(untaken_, nullptr)) return answered(std::move(take));
  go_on();
}

void SimLeadership::answered(Take take) {
  if (is_dead_) return;
  if (is_frozen_) {
    untaken_ = std::move(take);
    return;
  }
  is_asking_ = false;
  take(leadership_, clock_.now());
  go_on();
}

template <class Answer>
void SimLeadership::ask(
    std::function<EtcdResult<Answer>(test::ModelEtcd&)> what,
    std::function<void(Leadership&, const Answer&, Clock::time_point now)> take) {
  is_asking_ = true;
  etcd_.ask<Answer>(
      is_cut_, std::move(what), kCallLimit,
      [self = shared_from_this(), take = std::move(take)](const EtcdResult<Answer>& answer) {
        self->answered([answer, take](Leadership& leadership, Clock::time_point now) {
          answer ? take(leadership, *answer, now) : leadership.failed(answer.error(), now);
        });
      });
}

void SimLeadership::ask(const LeaderRequest& request) {
  const auto sent = clock_.now();
  if (std::holds_alternative<LookForLeader>(request)) {
    ask<EtcdPage>(
        [query = Leadership::look_of(settings_)](auto& etcd) { return etcd.range(query); },
        [](auto& to, const auto& page, auto now) { to.looked(page, now); });
  } else if (std::holds_alternative<GrantLease>(request)) {
    ask<EtcdGrant>([ttl = settings_.ttl](auto& etcd) { return etcd.grant(ttl); },
                   [sent](auto& to, const auto& grant, auto) { to.granted(grant, sent); });
  } else if (const auto* claim = std::get_if<ClaimLeader>(&request)) {
    ask<EtcdTxnAnswer>([txn = Leadership::claim_of(settings_, claim->lease)](
                           auto& etcd) { return etcd.checked_txn(txn); },
                       [](auto& to, const auto& answer, auto now) { to.claimed(answer, now); });
  } else if (const auto* renew = std::get_if<RenewLease>(&request)) {
    ask<std::chrono::seconds>([lease = renew->lease](auto& etcd) { return etcd.keep_alive(lease); },
                              [sent](auto& to, const auto& ttl, auto) { to.renewed(ttl, sent); });
  } else if (const auto* confirm = std::get_if<ConfirmLeader>(&request)) {
    ask<EtcdTxnAnswer>([&etcd = etcd_, txn = confirm->txn,
                        leader = revision()](auto&) { return etcd.write(txn, leader); },
                       [](auto& to, const auto& answer, auto now) { to.confirmed(answer, now); });
  } else if (const auto* compact = std::get_if<CompactHistory>(&request)) {
    ask<std::monostate>(
        [before = compact->before](auto& etcd) {
          etcd.compacted = before;
          return std::monostate{};
        },
        [](auto& to, auto, auto) { to.compacted(); });
  } else {
    ask<std::monostate>(
        [lease = std::get<DropLease>(request).lease](auto& etcd) {
          etcd.revoke(lease);
          return std::monostate{};
        },
        [](auto& to, auto, auto) { to.dropped(); });
  }
}

// ---- the process's other threads ----

/// Each call returns in the middle of what the world does: the events until its answer happen
/// within the call, those of the other rdzvd and of this one's leadership too. So what was decided
/// before the call meets what has changed since, as with real threads. A call in the middle of
/// another process's call returns first, and the other one is then late: a process that the machine
/// did not run meanwhile.
class SimLeadership::Client : public Etcd {
 public:
  explicit Client(std::shared_ptr<SimLeadership> of) : of_(std::move(of)) {}

  EtcdResult<EtcdPage> range(const EtcdQuery& query, Limit limit) override {
    return asked<EtcdPage>([query](auto& etcd) { return etcd.range(query); }, limit);
  }
  EtcdResult<EtcdTxnAnswer> txn(const EtcdTxn& txn, Limit limit) override {
    return asked<EtcdTxnAnswer>([&etcd = of_->etcd_, txn, leader = of_->revision()](
                                    auto&) { return etcd.write(txn, leader); },
                                limit);
  }
  EtcdResult<EtcdGrant> grant(std::chrono::seconds ttl, Limit limit) override {
    return asked<EtcdGrant>([ttl](auto& etcd) { return etcd.grant(ttl); }, limit);
  }
  EtcdResult<std::chrono::seconds> keep_alive(EtcdLease lease, Limit limit) override {
    return asked<std::chrono::seconds>([lease](auto& etcd) { return etcd.keep_alive(lease); },
                                       limit);
  }
  EtcdResult<std::monostate> revoke(EtcdLease lease, Limit limit) override {
    return asked<std::monostate>(
        [lease](auto& etcd) {
          etcd.revoke(lease);
          return std::monostate{};
        },
        limit);
  }
  EtcdResult<std::monostate> compact(EtcdRevision revision, Limit limit) override {
    return asked<std::monostate>(
        [revision](auto& etcd) {
          etcd.compacted = revision;
          return std::monostate{};
        },
        limit);
  }

 private:
  template <class Answer>
  EtcdResult<Answer> asked(std::function<EtcdResult<Answer>(test::ModelEtcd&)> what, Limit limit) {
    const auto answer = std::make_shared<std::optional<EtcdResult<Answer>>>();
    of_->etcd_.ask<Answer>(of_->is_cut_, std::move(what), limit,
                           [answer](EtcdResult<Answer> with) { *answer = std::move(with); });
    of_->wait_until([&] { return answer->has_value(); });
    if (!answer->has_value()) return EtcdFault{EtcdFault::Kind::unreachable, "it was killed"};
    return **answer;
  }

  const std::shared_ptr<SimLeadership> of_;
};

std::unique_ptr<Etcd> SimLeadership::make_client() {
  return std::make_unique<Client>(shared_from_this());
}

void SimLeadership::wait_until(const std::function<bool()>& holds) {
  while (!is_dead_ && (is_frozen_ || !holds())) {
    if (!world_.step(Clock::time_point::max())) return;
  }
}

void SimLeadership::sleep(Duration time) {
  const Clock::time_point until = world_.now() + time;
  world_.at(until, [] {});
  wait_until([this, until] { return world_.now() >= until; });
}

}  // namespace ddprun::sim
