#include "rendezvous/etcd/journal_etcd.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv {

namespace {

/// Keys in one answer; fewer where these are too large together.
constexpr std::int64_t kPageKeysMax = 1'000;

}  // namespace

std::shared_ptr<EtcdJournal> EtcdJournal::open(std::unique_ptr<Etcd> etcd, Settings settings,
                                               std::shared_ptr<EtcdTenure> tenure) {
  std::shared_ptr<EtcdJournal> journal(
      new EtcdJournal(std::move(etcd), std::move(settings), std::move(tenure)));
  return journal->read_past() ? journal : nullptr;
}

// ---- the past ----

bool EtcdJournal::read_past() {
  while (!tenure_->is_over()) {
    auto found = read_all();
    if (!found) {
      using Kind = EtcdFault::Kind;
      const Kind kind = found.error().kind;
      if (kind != Kind::unreachable && kind != Kind::compacted) {
        tenure_->lose("it cannot read the jobs: " + found.error().reason);
        return false;
      }
      settings_.pause();
      continue;
    }
    const auto leader = std::find_if(found->begin(), found->end(), [&](const EtcdKeyValue& one) {
      return one.key == keys_.leader();
    });
    if (leader == found->end() || leader->create_revision != settings_.leader_revision) {
      tenure_->lose("another one has taken its place, or its key was deleted");
      return false;
    }
    EtcdPast past = read_etcd_past(keys_, std::move(*found), settings_.boot_time, records_);
    clock_revision_ = past.clock_revision;
    slot_ = EtcdSlot(keys_.leader(), settings_.leader_revision, keys_.turn(), past.turn_revision);
    past_ = std::move(past.past);
    clock_shift_ = past_.clock_shift;
    return true;
  }
  return false;
}

/// As of one revision, which is that of the first page. Below the prefix there may also be the
/// journals of many runs, which are not ours.
EtcdResult<std::vector<EtcdKeyValue>> EtcdJournal::read_all() {
  std::vector<EtcdKeyValue> keys;
  EtcdRevision revision = 0;
  for (EtcdQuery query : {EtcdQuery{keys_.clock(), "", 1, 0}, EtcdQuery{keys_.turn(), "", 1, 0},
                          EtcdQuery{keys_.jobs(), EtcdKeys::end_of(keys_.jobs()), kPageKeysMax, 0},
                          EtcdQuery{keys_.leader(), "", 1, 0}}) {
    query.revision = revision;
    const auto read = read_range(std::move(query), keys);
    if (!read) return read.error();
    revision = *read;
  }
  return keys;
}

/// Appends them to `keys`. The revision of which they are.
EtcdResult<EtcdRevision> EtcdJournal::read_range(EtcdQuery query, std::vector<EtcdKeyValue>& keys) {
  while (true) {
    if (tenure_->is_over()) return EtcdFault{EtcdFault::Kind::unreachable, "this leader ends"};
    auto page = etcd_->range(query, settings_.call_limit);
    if (!page && page.error().kind == EtcdFault::Kind::too_large && query.limit > 1) {
      query.limit /= 2;
      continue;
    }
    if (!page) return page.error();
    if (query.revision == 0) query.revision = page->revision;
    keys.insert(keys.end(), std::make_move_iterator(page->keys.begin()),
                std::make_move_iterator(page->keys.end()));
    if (!page->more) return query.revision;
    query.key = keys.back().key + '\0';  // the next one
    query.limit = std::min(query.limit * 2, kPageKeysMax);
  }
}

// ---- records ----

std::string EtcdJournal::turn_value() const {
  return fmt::format("{} {}", settings_.leader_revision, turns_);
}

std::vector<std::string> EtcdJournal::commit() {
  std::vector<std::string> lines;
  auto groups = records_.take_groups();
  std::move(groups.begin(), groups.end(), std::back_inserter(unsent_));
  while (!unsent_.empty()) {
    if (!send(unsent_.front(), lines)) break;
    unsent_.pop_front();
  }
  return lines;
}

/// An answer that is not given must not be followed by others: so it ends the leadership.
bool EtcdJournal::may_answer() {
  if (unsent_.empty() && tenure_->may_answer()) return true;
  if (!tenure_->is_over()) tenure_->lose("its lease in etcd was not confirmed in time");
  return false;
}

/// Until it is durable. False: nothing more can be.
bool EtcdJournal::send(const std::vector<EtcdChange>& group, std::vector<std::string>& lines) {
  ++turns_;
  bool is_told = false;
  while (!tenure_->is_over()) {
    const auto answer = etcd_->txn(slot_.txn(turn_value(), group), settings_.call_limit);
    if (!answer) {
      using Kind = EtcdFault::Kind;
      const EtcdFault& fault = answer.error();
      if (fault.kind != Kind::unreachable && fault.kind != Kind::no_space) {
        tenure_->lose("it cannot write the journal: " + fault.reason);
        return false;
      }
      if (!std::exchange(is_told, true)) lines.push_back("waited for the journal: " + fault.reason);
      settings_.pause();
      continue;
    }
    switch (slot_.take(*answer, turn_value())) {
      case EtcdSlot::Outcome::done:
        return true;
      case EtcdSlot::Outcome::lost:
        tenure_->lose("another one has taken its place, or its key was deleted");
        return false;
      case EtcdSlot::Outcome::again:
        break;
    }
  }
  return false;
}

}  // namespace ddprun::rdzv
