// What rdzvd reads of an etcd: answers of its JSON gateway, and a journal's keys.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "rendezvous/etcd/etcd_json.hpp"
#include "rendezvous/etcd/etcd_past.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

/// The keys as those of a journal: the next leader takes them, and can write.
void check_past(const rdzv::EtcdPage& page) {
  const rdzv::EtcdKeys keys("p");
  rdzv::EtcdRecords records(keys);
  const rdzv::EtcdPast past =
      rdzv::read_etcd_past(keys, page.keys, rdzv::Clock::time_point{}, records);
  DDPRUN_ASSERT(past.clock_revision >= 0 && past.turn_revision >= 0, "no revision is below 0");
  records.append({"job", rdzv::Clock::time_point{}, rdzv::DeadlinePassed{}});
  for (const auto& group : records.take_groups()) {
    DDPRUN_ASSERT(!group.empty() && group.size() <= rdzv::EtcdRecords::kChangesMax,
                  "a group fits into a transaction");
    for (const auto& change : group) {
      const auto* put = std::get_if<rdzv::EtcdPut>(&change);
      const std::string& key = put != nullptr ? put->key : std::get<rdzv::EtcdDelete>(change).key;
      DDPRUN_ASSERT(key.starts_with("p/jobs/"), "no other keys are changed");
    }
  }
}

void check_base64(std::string_view text) {
  const auto bytes = rdzv::base64_decoded(text);
  DDPRUN_ASSERT(!bytes || rdzv::base64_of(*bytes) == text, "bytes have one text");
}

}  // namespace

void fuzz_etcd_answer(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      if (const auto page = rdzv::read_etcd_page(body)) {
        DDPRUN_ASSERT(page->revision > 0, "no revision is 0");
        check_past(*page);
      }
      return;
    case 1:
      if (const auto answer = rdzv::read_etcd_txn(body, 2))
        DDPRUN_ASSERT(answer->read.size() == (answer->succeeded ? 0U : 2U), "all keys were read");
      return;
    case 2:
      if (const auto grant = rdzv::read_etcd_grant(body))
        DDPRUN_ASSERT(grant->lease != 0 && grant->ttl.count() > 0, "a lease has a time");
      return;
    case 3:
      if (const auto ttl = rdzv::read_etcd_keep_alive(body))
        DDPRUN_ASSERT(ttl->count() >= 0, "no time is below 0");
      return;
    case 4:
      return check_base64(body);
    case 5:
      if (const auto place = rdzv::parse_etcd_place(body))
        DDPRUN_ASSERT(!place->members.empty() && !place->prefix.empty(), "a place is whole");
      return;
    case 6:
      if (const auto token = rdzv::read_etcd_token(body))
        DDPRUN_ASSERT(token->find_first_of(" \r\n") == std::string::npos, "a token is one word");
      return;
    default: {
      const rdzv::EtcdFault fault = rdzv::etcd_fault_of(data[0] * 4U, body, "h:1", {});
      DDPRUN_ASSERT(!fault.reason.empty() && fault.reason.size() < 2'000 &&
                        fault.reason.find('\n') == std::string::npos,
                    "a fault is one line");
    }
  }
}

}  // namespace ddprun::test
