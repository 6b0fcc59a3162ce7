#include "tests/fuzz/entries.hpp"

#include <algorithm>
#include <string_view>

#include "base/assert.hpp"
#include "rendezvous/store/request_stream.hpp"
#include "tests/unit/rendezvous/store/pure_store.hpp"

namespace ddprun::test {
namespace {

using proto::c10d::ParseStatus;
using proto::c10d::Request;
using proto::c10d::RequestParser;

/// Small, so that inputs of a few hundred bytes reach them.
rdzv::StoreSettings settings(bool accept_old_dialect) {
  rdzv::StoreSettings result;
  result.request = {.key_bytes_max = 32,
                    .value_bytes_max = 128,
                    .list_elements_max = 8,
                    .request_bytes_max = 600};
  result.waited_keys_max = 12;
  result.accept_old_dialect = accept_old_dialect;
  return result;
}

/// What a client reads, and why it was closed.
struct Outcome {
  std::string received;
  proto::c10d::Refusal::Why closed;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome served(std::string_view bytes, std::size_t piece, bool accept_old_dialect) {
  const rdzv::StoreSettings limits = settings(accept_old_dialect);
  PureStore store(limits);
  store.send(0, "");
  while (!bytes.empty()) {
    store.send(0, bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    // A client that keeps to the protocol is never owed more than one request.
    DDPRUN_ASSERT(store.closed(0) != proto::c10d::Refusal::Why::none ||
                      store.kept_bytes(0) <= limits.request.request_bytes_max,
                  "input is kept only while one request is incomplete");
  }
  const Outcome outcome{store.received(0), store.closed(0)};
  store.disconnect(0);
  DDPRUN_ASSERT(store.core().wait_count() == 0, "no wait outlives its connection");
  return outcome;
}

/// Every view that the parser gives lies inside the request.
void check_views(std::string_view bytes, bool accept_old_dialect) {
  const proto::c10d::Limits limits = settings(accept_old_dialect).request;
  RequestParser parser(accept_old_dialect);
  Request request;
  while (parser.next(bytes, limits, request) == ParseStatus::complete) {
    DDPRUN_ASSERT(request.size > 0 && request.size <= bytes.size(), "a request has bytes");
    const auto inside = [&](std::string_view view) {
      DDPRUN_ASSERT(view.empty() || (view.data() >= bytes.data() &&
                                     view.data() + view.size() <= bytes.data() + request.size),
                    "views lie inside the request");
    };
    inside(request.key);
    inside(request.value);
    inside(request.desired);
    std::uint64_t elements = 0;
    for (const std::string_view element : request.list) {
      inside(element);
      ++elements;
    }
    DDPRUN_ASSERT(elements == request.list.size(), "a list has as many elements as it says");
    bytes.remove_prefix(request.size);
  }
}

}  // namespace

void fuzz_c10d(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return;
  const std::size_t piece = 1 + data[0];
  const bool accept_old_dialect = (data[1] & 1) != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  check_views(bytes, accept_old_dialect);
  const Outcome whole = served(bytes, bytes.size() + 1, accept_old_dialect);
  DDPRUN_ASSERT(whole == served(bytes, piece, accept_old_dialect), "cuts change nothing");
  DDPRUN_ASSERT(whole == served(bytes, 1, accept_old_dialect), "cuts change nothing");
}

}  // namespace ddprun::test
