#include "rendezvous/store/store_core.hpp"

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

}  // namespace

StoreCore::~StoreCore() = default;

Refusal StoreCore::apply(ConnectionId connection, const Request& request, ReplyBuffer& reply,
                         std::vector<ConnectionId>& released) {
  released.clear();
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
  if (connection < connections_.size()) cancel_waits(connection);
}

StoreCore::Name* StoreCore::find(std::string_view key) const {
  const auto found = names_.find(key);
  return found != names_.end() ? found->second.get() : nullptr;
}

StoreCore::Name& StoreCore::find_or_add(std::string_view key) {
  if (Name* const known = find(key)) return *known;
  auto name = std::make_unique<Name>(key);
  Name& made = *name;
  names_.emplace(made.key, std::move(name));
  return made;
}

void StoreCore::drop_if_unused(Name& name) {
  if (!name.present() && name.waiters.empty()) names_.erase(names_.find(name.key));
}

void StoreCore::store(Name& name, std::string_view bytes) {
  if (name.value == nullptr) ++key_count_;
  const bool reusable =
      name.value != nullptr && name.value.use_count() == 1 &&
      (bytes.size() >= name.value->capacity() / 2 || name.value->capacity() <= kKeptValueBytesMax);
  if (reusable) {
    name.value->assign(bytes);
  } else {
    name.value = std::make_shared<std::string>(bytes);
  }
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
  reply.append_value(name->value);
  release_all(*name, released);
}

void StoreCore::append(const Request& request, std::vector<ConnectionId>& released) {
  Name& name = find_or_add(request.key);
  SharedValue& value = name.value;
  if (value == nullptr) {
    store(name, request.value);
  } else {
    if (value.use_count() > 1)
      value = std::make_shared<std::string>(*value);  // unsent replies hold the old one
    value->append(request.value);
  }
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
  if (!name.queue) name.queue = std::make_unique<std::deque<SharedValue>>();
  name.queue->push_back(std::make_shared<std::string>(request.value));
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
  queue.pop_front();
  if (queue.empty()) {
    name->queue.reset();
    drop_if_unused(*name);
  }
}

}  // namespace ddprun::rdzv
