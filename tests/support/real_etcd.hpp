// An etcd of one or three members on loopback, as real processes. Where etcd is not installed, the
// test is skipped.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "rendezvous/etcd/etcd_client.hpp"
#include "tests/support/bound_socket.hpp"
#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// Ports that were free when they were asked for, all different.
inline std::vector<std::uint16_t> free_ports(std::size_t count) {
  std::vector<BoundSocket> sockets;
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.push_back(bound_socket());
    ports.push_back(sockets.back().port);
  }
  return ports;
}

class RealEtcd {
 public:
  /// `access` with an encrypter: it speaks TLS, by further options.
  explicit RealEtcd(std::size_t members, std::vector<std::string> options = {},
                    rdzv::EtcdAccess access = {})
      : options_(std::move(options)),
        access_(std::move(access)),
        ports_(free_ports(2 * members)),
        members_(members) {
    if (::access("/usr/bin/etcd", X_OK) != 0)
      skip("etcd is not installed: scripts/install-deps --cluster");
    for (std::size_t i = 0; i < members; ++i) start(i);
    REQUIRE(eventually(
        [&] {
          return client()->range({"x", "", 1, 0}, kLimit).has_value();
        },
        std::chrono::seconds(30)));
  }

  void start(std::size_t index) {
    std::string cluster;
    for (std::size_t i = 0; i < members_.size(); ++i)
      cluster += (i > 0 ? ",m" : "m") + std::to_string(i) + "=" + peer(i);
    const std::string folder = (folder_ / ("m" + std::to_string(index))).string();
    ChildOptions child;
    child.limit = std::chrono::minutes(5);
    std::vector<std::string> words{"/usr/bin/etcd",
                                   "--name=m" + std::to_string(index),
                                   "--data-dir=" + folder,
                                   "--logger=zap",
                                   "--log-outputs=" + folder + ".log",
                                   "--listen-client-urls=" + url(index),
                                   "--advertise-client-urls=" + url(index),
                                   "--listen-peer-urls=" + peer(index),
                                   "--initial-advertise-peer-urls=" + peer(index),
                                   "--initial-cluster=" + cluster};
    words.insert(words.end(), options_.begin(), options_.end());
    members_[index] = std::make_unique<Child>(words, child);
  }
  /// How this test gets in from now on.
  void use(rdzv::EtcdAccess access) { access_ = std::move(access); }
  void kill(std::size_t index) { members_[index].reset(); }
  [[nodiscard]] Child& member(std::size_t index) { return *members_[index]; }
  [[nodiscard]] std::uint16_t port(std::size_t index) const { return ports_[2 * index]; }

  /// For --journal, without a prefix.
  [[nodiscard]] std::string place() const {
    std::string text = access_.encrypter ? "etcds://" : "etcd://";
    for (std::size_t i = 0; i < members_.size(); ++i)
      text += (i > 0 ? "," : "") + ("127.0.0.1:" + std::to_string(port(i)));
    return text;
  }
  [[nodiscard]] std::unique_ptr<rdzv::EtcdClient> client() const {
    std::vector<Endpoint> endpoints;
    for (std::size_t i = 0; i < members_.size(); ++i) endpoints.emplace_back("127.0.0.1", port(i));
    return std::make_unique<rdzv::EtcdClient>(
        endpoints, [] { return false; }, access_);
  }
  /// As people type it for ddprun.
  [[nodiscard]] std::string endpoints() const { return place().substr(place().find("://") + 3); }
  /// Empty: there is none.
  [[nodiscard]] std::string value(const std::string& key) const {
    const rdzv::EtcdPage page = read({key, "", 1, 0});
    return page.keys.empty() ? "" : page.keys[0].value;
  }
  /// All that there are.
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& one : read({std::string(1, '\0'), "\xff", 10'000, 0}).keys)
      names.push_back(one.key);
    return names;
  }
  void put(const std::string& key, const std::string& value) const {
    REQUIRE(client()->txn({{}, {rdzv::EtcdPut{key, value}}, {}}, kLimit).has_value());
  }

  static constexpr rdzv::Etcd::Limit kLimit{5'000};

 private:
  /// Asks again, as programs do: an etcd whose users have just changed refuses what it knows of
  /// them.
  [[nodiscard]] rdzv::EtcdPage read(const rdzv::EtcdQuery& query) const {
    rdzv::EtcdPage page;
    REQUIRE(eventually(
        [&] {
          auto answer = client()->range(query, kLimit);
          if (!answer) return false;
          page = std::move(*answer);
          return true;
        },
        std::chrono::seconds(30)));
    return page;
  }
  [[nodiscard]] std::string url(std::size_t i) const {
    return (access_.encrypter ? "https://127.0.0.1:" : "http://127.0.0.1:") +
           std::to_string(port(i));
  }
  [[nodiscard]] std::string peer(std::size_t i) const {
    return "http://127.0.0.1:" + std::to_string(ports_[2 * i + 1]);
  }

  const std::vector<std::string> options_;
  rdzv::EtcdAccess access_;
  const std::vector<std::uint16_t> ports_;
  const TempDir folder_;
  std::vector<std::unique_ptr<Child>> members_;
};

}  // namespace ddprun::test
