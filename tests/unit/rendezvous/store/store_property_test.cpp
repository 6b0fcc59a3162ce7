// Random requests of several clients, cut at random bytes and interleaved at random, against a
// model that is too simple to be wrong: it applies each request when its last byte has arrived.
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/decimal.hpp"
#include "tests/unit/rendezvous/store/asking.hpp"

using namespace ddprun::test;
using ddprun::test::TorchRequestWriter;

namespace {

constexpr std::size_t kClients = 4;

class Model {
 public:
  std::map<std::string, std::string> values;
  std::map<std::string, std::deque<std::string>> queues;
  std::map<std::size_t, std::string> replies;

  [[nodiscard]] bool present(const std::string& key) const {
    return values.contains(key) || queues.contains(key);
  }
  void wait(std::size_t client, const std::vector<std::string>& keys) {
    std::set<std::string> missing;
    for (const std::string& key : keys) {
      if (!present(key)) missing.insert(key);
    }
    if (missing.empty()) {
      replies[client] += kStop;
    } else {
      waits_.push_back({client, missing});
    }
  }
  void write(const std::string& key, const std::string& value) {
    values[key] = value;
    arrive(key, false);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) {
    const std::int64_t sum =
        (values.contains(key) ? ddprun::rdzv::parse_decimal(values[key]).value() : 0) + delta;
    values[key] = std::to_string(sum);
    return sum;
  }
  void barrier(std::size_t client, const std::string& key, std::int64_t size) {
    if (add(key, 1) < size) {
      waits_.push_back({client, {key}});
      return;
    }
    replies[client] += kStop;
    arrive(key, false);
  }
  void arrive(const std::string& key, bool one_only) {
    for (auto wait = waits_.begin(); wait != waits_.end();) {
      if (wait->missing.erase(key) == 0 || !wait->missing.empty()) {
        ++wait;
        continue;
      }
      replies[wait->client] += kStop;
      wait = waits_.erase(wait);
      if (one_only) return;
    }
  }
  void cancel(std::size_t client) {
    std::erase_if(waits_, [&](const Wait& wait) { return wait.client == client; });
  }

 private:
  struct Wait {
    std::size_t client;
    std::set<std::string> missing;
  };
  std::deque<Wait> waits_;
};

/// One request: its bytes, and what it does to the model.
struct Planned {
  std::string bytes;
  std::function<void(Model&, std::size_t client)> effect;
};

class Planner {
 public:
  explicit Planner(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }
  Planned next();

 private:
  std::string key() { return "/" + std::string(1, static_cast<char>('a' + below(6))); }
  /// Numbers live under names of their own, so that ADD never meets text.
  std::string counter() { return "/n" + std::string(1, static_cast<char>('a' + below(2))); }
  std::string value() {
    return std::string(below(8) == 0 ? 4000 + below(3000) : below(20),
                       static_cast<char>(below(256)));
  }
  std::vector<std::string> keys() {
    std::vector<std::string> result(below(4));
    for (std::string& name : result) name = below(4) == 0 ? counter() : key();
    return result;
  }
  std::mt19937 random_;
};

Planned Planner::next() {
  Planned planned;
  TorchRequestWriter writer(planned.bytes);
  switch (below(16)) {
    case 0: {
      const std::string k = key(), v = value();
      writer.set(k, v);
      planned.effect = [=](Model& model, std::size_t) { model.write(k, v); };
      break;
    }
    case 1: {
      const std::string k = key(), expected = below(2) ? "" : "v",
                        desired = below(2) ? "v" : value();
      writer.compare_set(k, expected, desired);
      planned.effect = [=](Model& model, std::size_t client) {
        const bool there = model.values.contains(k);
        if (!there && !expected.empty()) {
          model.replies[client] += vec(expected);
        } else if (there && model.values[k] != expected) {
          model.replies[client] += vec(model.values[k]);
        } else {
          model.replies[client] += vec(desired);
          model.write(k, desired);
        }
      };
      break;
    }
    case 2: {
      const std::string k = key();
      writer.get(k);
      planned.effect = [=](Model& model, std::size_t client) {
        model.replies[client] += vec(model.values.contains(k) ? model.values[k] : "");
      };
      break;
    }
    case 3: {
      const std::string k = counter();
      const std::int64_t delta = static_cast<std::int64_t>(below(100)) - 50;
      writer.add(k, delta);
      planned.effect = [=](Model& model, std::size_t client) {
        model.replies[client] += number(model.add(k, delta));
        model.arrive(k, false);
      };
      break;
    }
    case 4: {
      const auto ks = keys();
      writer.check(ks);
      planned.effect = [=](Model& model, std::size_t client) {
        bool all = true;
        for (const std::string& k : ks) all = all && model.present(k);
        model.replies[client] += all ? kStop : kMissing;
      };
      break;
    }
    case 5: {
      const auto ks = keys();
      writer.wait(ks);
      planned.effect = [=](Model& model, std::size_t client) { model.wait(client, ks); };
      break;
    }
    case 6: {
      writer.key_count();
      planned.effect = [](Model& model, std::size_t client) {
        model.replies[client] += number(static_cast<std::int64_t>(model.values.size()));
      };
      break;
    }
    case 7: {
      const std::string k = below(4) == 0 ? counter() : key();
      writer.delete_key(k);
      planned.effect = [=](Model& model, std::size_t client) {
        model.replies[client] += number(static_cast<std::int64_t>(model.values.erase(k)));
      };
      break;
    }
    case 8: {
      const std::string k = key(), more = value();
      writer.append(k, more);
      planned.effect = [=](Model& model, std::size_t) { model.write(k, model.values[k] + more); };
      break;
    }
    case 9: {
      const auto ks = keys();
      writer.multi_get(ks);
      planned.effect = [=](Model& model, std::size_t client) {
        for (const std::string& k : ks)
          model.replies[client] += vec(model.values.contains(k) ? model.values[k] : "");
      };
      break;
    }
    case 10: {
      std::vector<std::pair<std::string, std::string>> pairs(below(4));
      for (auto& pair : pairs) pair = {key(), value()};
      writer.multi_set(pairs);
      planned.effect = [=](Model& model, std::size_t) {
        for (const auto& [k, v] : pairs) model.write(k, v);
      };
      break;
    }
    case 11: {
      writer.cancel_wait();
      planned.effect = [](Model& model, std::size_t client) {
        model.cancel(client);
        model.replies[client] += kCanceled;
      };
      break;
    }
    case 12: {
      const std::string k = key(), v = value();
      if (below(2) == 0) {
        writer.queue_push(k, v);
        planned.effect = [=](Model& model, std::size_t) {
          model.queues[k].push_back(v);
          model.arrive(k, true);
        };
      } else {
        writer.queue_pop(k);
        planned.effect = [=](Model& model, std::size_t client) {
          auto& queue = model.queues[k];
          model.replies[client] += number(static_cast<std::int64_t>(queue.size()));
          if (!queue.empty()) {
            model.replies[client] += vec(queue.front());
            queue.pop_front();
          }
          if (queue.empty()) model.queues.erase(k);
        };
      }
      break;
    }
    case 13: {
      const auto nonce = static_cast<std::uint32_t>(below(1 << 30));
      writer.ping(nonce);
      planned.effect = [=](Model& model, std::size_t client) {
        model.replies[client].append(reinterpret_cast<const char*>(&nonce), sizeof nonce);
      };
      break;
    }
    case 14: {
      const std::string k = key();
      writer.queue_length(k);
      planned.effect = [=](Model& model, std::size_t client) {
        const bool there = model.queues.contains(k);
        model.replies[client] +=
            number(there ? static_cast<std::int64_t>(model.queues[k].size()) : 0);
      };
      break;
    }
    default: {
      const std::string k = counter();
      const auto size = static_cast<std::int64_t>(below(6)) - 1;
      writer.barrier(k, size);
      planned.effect = [=](Model& model, std::size_t client) { model.barrier(client, k, size); };
    }
  }
  return planned;
}

/// The requests that one client has yet to send.
struct Script {
  std::deque<Planned> requests;
  std::size_t sent = 0;  ///< bytes of the first request
};

}  // namespace

TEST_CASE("requests cut and interleaved at random get the answers of whole ones") {
  std::size_t requests = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Planner planner(seed);
    PureStore store;
    Model model;
    std::vector<Script> scripts(kClients);
    for (std::size_t client = 0; client < kClients; ++client) {
      store.connect(static_cast<ddprun::rdzv::ConnectionId>(client));
      for (int i = 0; i < 60; ++i) scripts[client].requests.push_back(planner.next());
    }
    std::size_t unfinished = kClients;
    while (unfinished > 0) {
      const std::size_t client = planner.below(kClients);
      Script& script = scripts[client];
      if (script.requests.empty()) continue;
      std::string piece;
      std::size_t room = 1 + planner.below(planner.below(4) == 0 ? 5000 : 40);
      while (room > 0 && !script.requests.empty()) {
        const std::string& bytes = script.requests.front().bytes;
        const std::size_t length = std::min(room, bytes.size() - script.sent);
        piece.append(bytes, script.sent, length);
        script.sent += length;
        room -= length;
        if (script.sent < bytes.size()) break;
        script.requests.front().effect(model, client);
        script.requests.pop_front();
        script.sent = 0;
        ++requests;
        if (script.requests.empty()) --unfinished;
      }
      store.send(static_cast<ddprun::rdzv::ConnectionId>(client), piece);
      for (std::size_t other = 0; other < kClients; ++other) {
        REQUIRE(store.received(static_cast<ddprun::rdzv::ConnectionId>(other)) ==
                std::exchange(model.replies[other], {}));
      }
    }
    CHECK(store.core().key_count() == model.values.size());
  }
  CHECK(requests == 300 * kClients * 60);
}
