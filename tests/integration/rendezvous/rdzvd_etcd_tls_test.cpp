// A journal in a real etcd that encrypts, asks for certificates, or asks for a user.
#include "tests/integration/rendezvous/running_rdzvd.hpp"
#include "tests/support/closed_etcd.hpp"
#include "tests/support/tls.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

/// An etcd of one member that speaks TLS and asks each client for a certificate.
struct ClosedEtcd : EtcdCertificates {
  RealEtcd etcd{1, options(), access()};
};

/// What an rdzvd with these options prints to stderr until it has `expected`.
void check_warning(const Words& options, const std::string& expected) {
  Words all{"--listen=127.0.0.1:0"};
  all.insert(all.end(), options.begin(), options.end());
  Rdzvd rdzvd(all);
  const bool is_told = rdzvd.child.wait_for(
      [&](const auto&, const auto& err) { return err.find(expected) != std::string::npos; });
  INFO(rdzvd.child.err());
  CHECK(is_told);
}

}  // namespace

TEST_CASE("rdzvd keeps its journal in an etcd that speaks TLS and asks for certificates") {
  tls();
  ClosedEtcd closed;
  const Words own{"--etcd-cert=" + closed.client.certificate, "--etcd-key=" + closed.client.key};
  Words options{"--listen=127.0.0.1:0", "--journal=" + closed.etcd.place(),
                "--etcd-ca=" + closed.authority.file()};
  const Words without = {options[1], options[2]};
  options.insert(options.end(), own.begin(), own.end());
  Rdzvd rdzvd(options);
  REQUIRE(eventually([&] { return closed.etcd.value("ddprun/leader") == rdzvd.first_line; },
                     std::chrono::seconds(20)));
  CHECK(eventually(
      [&] {
        return run(rdzvd_command({"--status", "--endpoint=" + rdzvd.first_line})).status == 0;
      },
      std::chrono::seconds(20)));
  CHECK(rdzvd.stop().status == 0);
  CHECK(closed.etcd.value("ddprun/leader").empty());

  check_warning(without, " cannot be used: it asks for a certificate: add --etcd-cert=FILE");
  TestAuthority other("other");
  check_warning({options[1], "--etcd-ca=" + other.file()},
                "its certificate is signed by CN=authority, which is not in " + other.file());
  check_warning({options[1]}, "which is not in the authorities of this machine's OpenSSL");
  check_warning({"--journal=etcd" + closed.etcd.place().substr(5)},
                "if it has TLS, write etcds:// in place of etcd://");
}

TEST_CASE("many large answers come through TLS, and a connection is used again") {
  tls();
  ClosedEtcd closed;
  const auto client = closed.etcd.client();
  for (int i = 0; i < 5; ++i) {
    const std::string key = "big" + std::to_string(i);
    const std::string value(1'000'000, static_cast<char>('a' + i));
    REQUIRE(client->txn({{}, {rdzv::EtcdPut{key, value}}, {}}, RealEtcd::kLimit).has_value());
    const auto page = client->range({"big", "bih", 10, 0}, RealEtcd::kLimit);
    REQUIRE(page.has_value());
    REQUIRE(page->keys.size() == static_cast<std::size_t>(i) + 1);
    CHECK(page->keys.back().value == value);
  }
}

TEST_CASE("a certificate is wrong only if no member of etcd has ever shown a right one") {
  tls();
  ClosedEtcd closed;
  TestAuthority other("other");
  const Endpoint member{"127.0.0.1", closed.etcd.port(0)};
  const Endpoint closed_port{"127.0.0.1", free_ports(1)[0]};
  const auto kind_of = [](std::vector<Endpoint> members, const rdzv::EtcdAccess& access) {
    rdzv::EtcdClient client(
        std::move(members), [] { return false; }, access);
    const auto page = client.range({"x", "", 1, 0}, RealEtcd::kLimit);
    REQUIRE_FALSE(page.has_value());
    return page.error().kind;
  };
  using Kind = rdzv::EtcdFault::Kind;
  const rdzv::EtcdAccess wrong = access_with(other.file(), closed.client);
  CHECK(kind_of({member}, wrong) == Kind::not_trusted);
  CHECK(kind_of({member, member}, wrong) == Kind::not_trusted);
  CHECK(kind_of({member, closed_port}, wrong) == Kind::unreachable);
  CHECK(kind_of({closed_port, member}, wrong) == Kind::unreachable);
  CHECK(kind_of({member}, access_with(closed.authority.file())) == Kind::not_trusted);
}

TEST_CASE("an etcd without TLS is named where it was to have it") {
  tls();
  const RealEtcd etcd(1);
  TestAuthority authority;
  check_warning({"--journal=etcds" + etcd.place().substr(4), "--etcd-ca=" + authority.file()},
                "if it has no TLS, write etcd:// in place of etcds:// in --journal");
}

TEST_CASE("rdzvd logs in to an etcd with users") {
  RealEtcd etcd(1);
  give_users(etcd, "rdzvd", "short");
  const PasswordFile file("short");
  const std::string journal = "--journal=" + etcd.place();
  const std::string password = "--etcd-password-file=" + file.path();
  Rdzvd rdzvd({"--listen=127.0.0.1:0", journal, "--etcd-user=rdzvd", password});
  CHECK(eventually([&] { return etcd.value("ddprun/leader") == rdzvd.first_line; },
                   std::chrono::seconds(20)));
  check_warning({journal}, "asks for a user: name one with --etcd-user=NAME");
  check_warning({journal, "--etcd-user=nobody", password}, "does not know this user or password");
  check_warning({journal + "/other", "--etcd-user=rdzvd", password}, "grant-permission");
}

TEST_CASE("TLS 1.2 is enough for etcd, and other programs with TLS are not taken for it") {
  tls();
  TestAuthority authority;
  const auto own = authority.issue("other");
  const std::uint16_t port = free_ports(1)[0];
  Child server({"/usr/bin/openssl", "s_server", "-tls1_2", "-rev", "-accept",
                "127.0.0.1:" + std::to_string(port), "-cert", own.certificate, "-key", own.key});
  REQUIRE(server.wait_for_output("ACCEPT"));
  rdzv::EtcdClient client(
      {{"127.0.0.1", port}}, [] { return false; }, access_with(authority.file()));
  const auto answer = client.range({"x", "", 1, 0}, RealEtcd::kLimit);
  REQUIRE_FALSE(answer.has_value());
  CHECK_THAT(answer.error().reason, Contains("is no etcd (it does not answer in HTTP)"));
}
