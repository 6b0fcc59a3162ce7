// Requests in words, for tests of the pure store.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/c10d_requests.hpp"
#include "tests/unit/rendezvous/store/pure_store.hpp"

namespace ddprun::test {

/// "\0" as a string: the byte that ends a wait, or says that keys are there.
inline const std::string kStop(1, '\0');
inline const std::string kCanceled(1, '\1');
inline const std::string kMissing(1, '\1');

inline std::string number(std::int64_t value) {
  std::string bytes;
  proto::c10d::append_u64(bytes, static_cast<std::uint64_t>(value));
  return bytes;
}
inline std::string vec(std::string_view value) {
  std::string bytes;
  proto::c10d::append_bytes(bytes, value);
  return bytes;
}

/// A client that has validated; each call sends one request and returns what the client has
/// received since.
class Client {
 public:
  using Keys = std::vector<std::string>;
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Client(PureStore& store, rdzv::ConnectionId id) : store_(&store), id_(id) { store.connect(id); }

  std::string set(std::string_view key, std::string_view value) {
    return ask([&](auto& w) { w.set(key, value); });
  }
  std::string get(std::string_view key) {
    return ask([&](auto& w) { w.get(key); });
  }
  std::string add(std::string_view key, std::int64_t delta) {
    return ask([&](auto& w) { w.add(key, delta); });
  }
  std::string check(const Keys& keys) {
    return ask([&](auto& w) { w.check(keys); });
  }
  std::string wait(const Keys& keys) {
    return ask([&](auto& w) { w.wait(keys); });
  }
  std::string key_count() {
    return ask([&](auto& w) { w.key_count(); });
  }
  std::string erase(std::string_view key) {
    return ask([&](auto& w) { w.delete_key(key); });
  }
  std::string append(std::string_view key, std::string_view more) {
    return ask([&](auto& w) { w.append(key, more); });
  }
  std::string multi_get(const Keys& keys) {
    return ask([&](auto& w) { w.multi_get(keys); });
  }
  std::string multi_set(const Pairs& pairs) {
    return ask([&](auto& w) { w.multi_set(pairs); });
  }
  std::string cancel_wait() {
    return ask([&](auto& w) { w.cancel_wait(); });
  }
  std::string push(std::string_view key, std::string_view value) {
    return ask([&](auto& w) { w.queue_push(key, value); });
  }
  std::string pop(std::string_view key) {
    return ask([&](auto& w) { w.queue_pop(key); });
  }
  std::string queue_length(std::string_view key) {
    return ask([&](auto& w) { w.queue_length(key); });
  }
  std::string barrier(std::string_view key, std::int64_t size) {
    return ask([&](auto& w) { w.barrier(key, size); });
  }
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) {
    return ask([&](auto& w) { w.compare_set(key, expected, desired); });
  }

  std::string received() { return store_->received(id_); }
  [[nodiscard]] proto::c10d::Refusal::Why closed() const { return store_->closed(id_); }

 private:
  template <class Write>
  std::string ask(Write&& write) {
    std::string bytes;
    test::TorchRequestWriter writer(bytes);
    write(writer);
    store_->send(id_, bytes);
    return received();
  }

  PureStore* store_;
  rdzv::ConnectionId id_;
};

}  // namespace ddprun::test
