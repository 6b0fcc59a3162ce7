#include "rendezvous/store/store_core.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "rendezvous/store/decimal.hpp"

namespace ddprun::rdzv {

using proto::c10d::Code;
using proto::c10d::List;
using proto::c10d::Refusal;
using proto::c10d::Request;

namespace {

/// A value that shrinks keeps its memory up to this size.
constexpr std::size_t kKeptValueBytesMax = 4096;

// What the allocator and the containers take beside the bytes themselves, about.
constexpr std::uint64_t kNameBytes = 192;
constexpr std::uint64_t kValueBytes = 80;
constexpr std::uint64_t kQueueBytes = 700;
constexpr std::uint64_t kShortBytes = 32;  // a number, or what a string has room for anyway

constexpr std::uint64_t kUsualRequestBytes = 4096;
constexpr std::uint64_t kUsualKeys = 100;
constexpr std::uint64_t kUsualGrowth = 64 * 1024;
static_assert(kUsualGrowth > kUsualKeys * 2 * kNameBytes + kQueueBytes + 2 * kUsualRequestBytes,
              "no usual request needs more");

std::uint64_t bytes_of_value(const SharedValue& value) {
  return value ? kValueBytes + value->capacity() : 0;
}

}  // namespace

StoreCore::~StoreCore() = default;

Refusal StoreCore::apply(ConnectionId connection, const Request& request, ReplyBuffer& reply,
                         std::vector<ConnectionId>& released) {
  released.clear();
  if (const Refusal refusal = refuse_growth(connection, request)) return refusal;
  requester_ = connection;
  return carry_out(connection, request, reply, released);
}

Refusal StoreCore::carry_out(ConnectionId connection, const Request& request, ReplyBuffer& reply,
                             std::vector<ConnectionId>& released) {
  if (request.old_dialect && !state(connection).waits.empty()) {
    return {Refusal::Why::request_while_waiting, 0, 0};
  }
  switch (request.code) {
    case Code::validate:
      break;
    case Code::ping:
      reply.append_u32(static_cast<std::uint32_t>(request.number));
      break;
    case Code::set:
      set(request.key, request.value, released);
      break;
    case Code::compare_set:
      compare_set(request, reply, released);
      break;
    case Code::get:
      get(request.key, reply);
      break;
    case Code::add: {
      Name& name = find_or_add(request.key);
      std::int64_t sum = 0;
      if (!add(name, request.number, sum)) return {Refusal::Why::not_a_number, 0, 0};
      reply.append_i64(sum);
      release_all(name, released);
      break;
    }
    case Code::check:
      reply.append_u8(all_present(request.list) ? proto::c10d::kReady : proto::c10d::kNotReady);
      break;
    case Code::wait:
      return wait(connection, request.list, reply);
    case Code::key_count:
      reply.append_u64(key_count_);
      break;
    case Code::delete_key:
      reply.append_i64(erase(request.key) ? 1 : 0);
      break;
    case Code::append:
      append(request, released);
      break;
    case Code::multi_get:
      for (const std::string_view key : request.list) get(key, reply);
      break;
    case Code::multi_set:
      for (auto element = request.list.begin(); element != request.list.end(); ++element) {
        const std::string_view key = *element;
        set(key, *++element, released);
      }
      break;
    case Code::cancel_wait:
      cancel_waits(connection);
      reply.append_u8(proto::c10d::kWaitCanceled);
      break;
    case Code::queue_push:
      queue_push(request, released);
      break;
    case Code::queue_pop:
      queue_pop(request.key, reply);
      break;
    case Code::queue_length: {
      const Name* name = find(request.key);
      reply.append_u64(name != nullptr && name->queue ? name->queue->size() : 0);
      break;
    }
    case Code::list_keys:
      list_keys(reply);
      break;
    case Code::barrier:
      return barrier(connection, request, reply, released);
  }
  return {};
}

void StoreCore::disconnect(ConnectionId connection) {
  if (connection >= connections_.size()) return;
  cancel_waits(connection);
  connections_[connection].account.reset();  // another client may get this number
}

// ---- memory ----

void StoreCore::count(Name& name, std::uint64_t more, std::uint64_t less) {
  const std::uint64_t change = more - less;  // wraps, and so do the sums
  name.bytes += change;
  bytes_ += change;
  if (name.account) *name.account += change;
}

/// The name counts as the requester's from here on.
void StoreCore::take_over(Name& name) {
  if (bytes_max_ == std::numeric_limits<std::uint64_t>::max()) return;
  Account& account = state(requester_).account;
  if (account == nullptr) account = std::make_shared<std::uint64_t>(0);
  if (name.account == account) return;
  if (name.account) *name.account -= name.bytes;
  name.account = account;
  *account += name.bytes;
}

/// At most: whatever is there already is counted again, but for one key and its value.
std::uint64_t StoreCore::growth_by(const Request& request) const {
  switch (request.code) {
    case Code::set:
    case Code::compare_set:
    case Code::add: {
      const Name* name = find(request.key);
      const std::uint64_t after = kNameBytes + kValueBytes + kShortBytes + request.size;
      if (name == nullptr) return after;
      const std::uint64_t before = kNameBytes + name->key.size() + bytes_of_value(name->value);
      return after - std::min(after, before);
    }
    case Code::append: {
      // A string that grows doubles its memory.
      const Name* name = find(request.key);
      const std::uint64_t before = name != nullptr && name->value ? name->value->capacity() : 0;
      return kNameBytes + kValueBytes + request.size + before;
    }
    case Code::queue_push:
      return kNameBytes + kQueueBytes + kValueBytes + request.size;
    case Code::multi_set:
      return request.list.size() * (kNameBytes + kValueBytes) + request.size;
    case Code::barrier:
      return kNameBytes + kValueBytes + kNameBytes + request.size;
    case Code::wait: {
      std::uint64_t missing = 0;
      for (const std::string_view key : request.list) {
        const Name* name = find(key);
        if (name == nullptr || !name->present()) missing += 2 * kNameBytes + key.size();
      }
      return missing;
    }
    default:
      return 0;
  }
}

Refusal StoreCore::refuse_growth(ConnectionId connection, const Request& request) const {
  const std::uint64_t share = bytes_max_ / kShare;
  const Account none;
  const Account& account =
      connection < connections_.size() ? connections_[connection].account : none;
  const std::uint64_t own = account ? *account : 0;
  // A usual request in a store that is far from full needs no look-up for this.
  const bool is_usual = request.size <= kUsualRequestBytes && request.list.size() <= kUsualKeys &&
                        request.code != Code::append;
  if (is_usual && own + kUsualGrowth <= share && bytes_ + kUsualGrowth <= bytes_max_) return {};
  const std::uint64_t growth = growth_by(request);
  if (growth == 0) return {};
  if (own + growth > share) return {Refusal::Why::share_full, own + growth, share};
  if (bytes_ + growth > bytes_max_) return {Refusal::Why::store_full, bytes_ + growth, bytes_max_};
  return {};
}

StoreCore::Name* StoreCore::find(std::string_view key) const {
  const auto found = names_.find(key);
  return found != names_.end() ? found->second.get() : nullptr;
}

StoreCore::Name& StoreCore::find_or_add(std::string_view key) {
  if (Name* const known = find(key)) return *known;
  auto name = std::make_unique<Name>(key);
  Name& made = *name;
  count(made, kNameBytes + key.size());
  take_over(made);
  names_.emplace(made.key, std::move(name));
  return made;
}

void StoreCore::drop_if_unused(Name& name) {
  if (name.present() || !name.waiters.empty()) return;
  count(name, 0, name.bytes);
  names_.erase(names_.find(name.key));
}

void StoreCore::store(Name& name, std::string_view bytes) {
  if (name.value == nullptr) ++key_count_;
  const std::uint64_t before = bytes_of_value(name.value);
  const std::size_t capacity = name.value != nullptr ? name.value->capacity() : 0;
  const bool reusable = name.value != nullptr && name.value.use_count() == 1 &&
                        bytes.size() <= capacity &&
                        (bytes.size() >= capacity / 2 || capacity <= kKeptValueBytesMax);
  if (reusable) {
    name.value->assign(bytes);
  } else {
    name.value = std::make_shared<std::string>(bytes);
  }
  count(name, bytes_of_value(name.value), before);
}

/// False, and nothing changed, if the value is not a number. The sum wraps in two's complement.
bool StoreCore::add(Name& name, std::int64_t delta, std::int64_t& sum) {
  std::int64_t before = 0;
  if (name.value != nullptr) {
    const std::optional<std::int64_t> parsed = parse_decimal(*name.value);
    if (!parsed) return false;
    before = *parsed;
  }
  sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(before) +
                                  static_cast<std::uint64_t>(delta));
  std::array<char, 20> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), sum);
  store(name, {text.data(), static_cast<std::size_t>(written.ptr - text.data())});
  return true;
}

void StoreCore::set(std::string_view key, std::string_view value,
                    std::vector<ConnectionId>& released) {
  Name& name = find_or_add(key);
  store(name, value);
  take_over(name);
  release_all(name, released);
}

void StoreCore::compare_set(const Request& request, ReplyBuffer& reply,
                            std::vector<ConnectionId>& released) {
  Name* name = find(request.key);
  const std::string* const current = name != nullptr ? name->value.get() : nullptr;
  if (current == nullptr && !request.value.empty()) {
    reply.append_bytes(
        request.value);  // the caller cannot tell that the key is missing; PyTorch does the same
    return;
  }
  if (current != nullptr && *current != request.value) {
    reply.append_value(name->value);
    return;
  }
  if (name == nullptr) name = &find_or_add(request.key);
  store(*name, request.desired);
  take_over(*name);
  reply.append_value(name->value);
  release_all(*name, released);
}

void StoreCore::append(const Request& request, std::vector<ConnectionId>& released) {
  Name& name = find_or_add(request.key);
  SharedValue& value = name.value;
  if (value == nullptr) {
    store(name, request.value);
  } else {
    const std::uint64_t before = bytes_of_value(value);
    if (value.use_count() > 1)
      value = std::make_shared<std::string>(*value);  // unsent replies hold the old one
    value->append(request.value);
    count(name, bytes_of_value(value), before);
  }
  take_over(name);
  release_all(name, released);
}

void StoreCore::get(std::string_view key, ReplyBuffer& reply) {
  const Name* name = find(key);
  if (name == nullptr || name->value == nullptr) {
    reply.append_u64(0);
  } else {
    reply.append_value(name->value);
  }
}

bool StoreCore::all_present(const List& keys) const {
  for (const std::string_view key : keys) {
    const Name* name = find(key);
    if (name == nullptr || !name->present()) return false;
  }
  return true;
}

bool StoreCore::erase(std::string_view key) {
  Name* name = find(key);
  if (name == nullptr || name->value == nullptr) return false;
  count(*name, 0, bytes_of_value(name->value));
  name->value.reset();
  --key_count_;
  drop_if_unused(*name);
  return true;
}

void StoreCore::list_keys(ReplyBuffer& reply) const {
  reply.append_u64(key_count_);
  for (const auto& [key, name] : names_) {
    if (name->value != nullptr) reply.append_bytes(key);
  }
}

void StoreCore::queue_push(const Request& request, std::vector<ConnectionId>& released) {
  Name& name = find_or_add(request.key);
  if (!name.queue) {
    name.queue = std::make_unique<std::deque<SharedValue>>();
    count(name, kQueueBytes);
  }
  name.queue->push_back(std::make_shared<std::string>(request.value));
  count(name, bytes_of_value(name.queue->back()));
  take_over(name);
  release_first(name, released);
}

void StoreCore::queue_pop(std::string_view key, ReplyBuffer& reply) {
  Name* name = find(key);
  if (name == nullptr || !name->queue) {
    reply.append_u64(0);
    return;
  }
  std::deque<SharedValue>& queue = *name->queue;
  reply.append_u64(queue.size());  // the length before the pop
  reply.append_value(queue.front());
  count(*name, 0, bytes_of_value(queue.front()));
  queue.pop_front();
  if (queue.empty()) {
    count(*name, 0, kQueueBytes);
    name->queue.reset();
    drop_if_unused(*name);
  }
}

}  // namespace ddprun::rdzv
