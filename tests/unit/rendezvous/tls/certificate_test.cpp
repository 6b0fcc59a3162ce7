// Both ends of a connection that is encrypted with certificates, and what each of them must refuse.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <utility>

#include "proto/error.hpp"
#include "rendezvous/tls/tls.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/tls.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using proto::Encrypter;
using proto::Errc;
using rdzv::CertificateSettings;
using test::TestAuthority;
using test::tls;

namespace {

CertificateSettings settings(const std::string& authorities, const TestAuthority::Files& own = {}) {
  CertificateSettings settings;
  settings.authorities = {"--ca", authorities};
  settings.certificate = {"--cert", own.certificate};
  settings.key = {"--key", own.key};
  return settings;
}

std::shared_ptr<const Encrypter> opened(const CertificateSettings& settings) {
  tls();
  auto opened = rdzv::open_tls(settings);
  INFO((opened ? std::string() : opened.error()));
  REQUIRE(opened.has_value());
  CHECK(opened->warning.empty());
  return opened->encrypter;
}

std::string refused(const CertificateSettings& settings) {
  tls();
  const auto opened = rdzv::open_tls(settings);
  REQUIRE_FALSE(opened.has_value());
  return opened.error();
}

/// A client and a service that have talked until neither had anything to say.
struct Talk {
  Talk(const Encrypter& clients, const Encrypter& services, const std::string& host = "localhost")
      : client(clients.client({host, "", "train-7"})),
        service(services.service([](const std::string&) { return std::string(); })) {
    client->encrypt("a question");
    service->encrypt("an answer");
    for (int turn = 0; turn < 6; ++turn) {
      service_error = service->decrypt(client->take_output(), at_service);
      client_error = client->decrypt(service->take_output(), at_client);
    }
  }
  std::unique_ptr<proto::Encryption> client;
  std::unique_ptr<proto::Encryption> service;
  std::string at_client;
  std::string at_service;
  ErrorCode client_error;
  ErrorCode service_error;
};

/// What a client that trusts `authority` finds wrong with a service.
std::string wrong_with(const std::string& authority, const TestAuthority::Files& services,
                       const std::string& host = "localhost") {
  const Talk talk(*opened(settings(authority)), *opened(settings("", services)), host);
  CHECK(talk.client_error == Errc::certificate_refused);
  CHECK(talk.at_client.empty());
  CHECK(talk.at_service.empty());
  CHECK(talk.service_error == Errc::certificate_refused);
  CHECK_THAT(talk.service->problem(), StartsWith("it does not accept the certificate of this"));
  return talk.client->problem();
}

}  // namespace

TEST_CASE("certificates: a client trusts a service by its authority and its name") {
  TestAuthority authority;
  const auto service = opened(settings("", authority.issue("node1")));
  const auto client = opened(settings(authority.file()));
  for (const char* host : {"localhost", "127.0.0.1", "LOCALHOST"}) {
    INFO(host);
    const Talk talk(*client, *service, host);
    CHECK_FALSE(talk.client_error);
    CHECK_FALSE(talk.service_error);
    CHECK(talk.at_service == "a question");
    CHECK(talk.at_client == "an answer");
    CHECK(talk.service->run_id().empty());
  }
  CHECK_FALSE(service->checks_clients());
  CHECK(service->why_no_service().empty());
  CHECK(client->why_no_service() == "a certificate is missing: add --cert=FILE and --key=FILE");
  CHECK_THAT(client->description(), StartsWith("TLS 1.3 with certificates, OpenSSL"));
}

TEST_CASE("certificates: a service of another name is refused, and its names are shown") {
  TestAuthority authority;
  const auto files = authority.issue("node1", {.names = "DNS:node1,IP:10.0.0.1"});
  CHECK(wrong_with(authority.file(), files, "node2") ==
        "its certificate is not for node2, but for DNS:node1, IP Address:10.0.0.1: use one of "
        "these names, or a certificate that has node2 among its names");
  CHECK_THAT(wrong_with(authority.file(), files, "10.0.0.2"), StartsWith("its certificate is not "
                                                                         "for 10.0.0.2"));
  CHECK_THAT(wrong_with(authority.file(), files, "::1"), StartsWith("its certificate is not for"));
  wrong_with(authority.file(), files, "");
  // A name is never compared with addresses, nor a part of one.
  const auto wild = authority.issue("wild", {.names = "DNS:*.lab,DNS:n*.site"});
  CHECK_THAT(wrong_with(authority.file(), wild, "a.b.lab"), Contains("DNS:*.lab"));
  CHECK_THAT(wrong_with(authority.file(), wild, "n1.site"), Contains("DNS:n*.site"));
}

TEST_CASE("certificates: one that is over, or not valid yet, is refused with its date") {
  TestAuthority authority;
  const auto with_dates = [&](const std::string& name, const std::string& from,
                              const std::string& until) {
    return authority.issue(name, {.from = from, .until = until});
  };
  const auto past = with_dates("past", "20200101000000Z", "20210203040506Z");
  const auto future = with_dates("future", "20980203040506Z", "20991231235959Z");
  CHECK(refused(settings(authority.file(), past)) ==
        "--cert=" + past.certificate +
            ": the certificate (CN=past) expired on Feb  3 04:05:06 2021 GMT: renew it, or set "
            "this machine's clock");
  CHECK_THAT(refused(settings(authority.file(), future)),
             Contains("is not valid before Feb  3 04:05:06 2098 GMT"));
}

TEST_CASE("certificates: what leads to the authority comes with one, and may be over as well") {
  TestAuthority root("root");
  TestAuthority between("between", root, {});
  const auto files = between.issue("node1");
  const Talk talk(*opened(settings(root.file())), *opened(settings("", files)));
  CHECK(talk.at_client == "an answer");
  TestAuthority over("over", root, {.until = "20210203040506Z"});
  CHECK(wrong_with(root.file(), over.issue("node2")) ==
        "its certificate (CN=over) expired on Feb  3 04:05:06 2021 GMT: renew it, or set this "
        "machine's clock");
  TestAuthority early("early", root, {.from = "20980203040506Z"});
  CHECK_THAT(wrong_with(root.file(), early.issue("node3")),
             StartsWith("its certificate (CN=early) is not valid before Feb  3 04:05:06 2098"));
}

TEST_CASE("certificates: an unknown authority and a self-signed one are told apart") {
  TestAuthority authority;
  TestAuthority other("other");
  const auto files = other.issue("node1");
  CHECK(wrong_with(authority.file(), files) ==
        "its certificate is signed by CN=other, which is not in " + authority.file() +
            ": add the certificate of that authority there, or those in between to the file of its "
            "certificate");
  const auto own = authority.self_signed("self");
  CHECK(wrong_with(authority.file(), own) ==
        "its certificate (CN=self) is self-signed and not in " + authority.file() +
            ": add it there");
  const Talk pinned(*opened(settings(own.certificate)), *opened(settings("", own)));
  CHECK(pinned.at_client == "an answer");
  const Talk leaf(*opened(settings(files.certificate)), *opened(settings("", files)));
  CHECK(leaf.at_client == "an answer");
}

TEST_CASE("certificates: one for clients is none for a service") {
  TestAuthority authority;
  const auto files = authority.issue("node1", {.usage = "clientAuth"});
  CHECK_THAT(wrong_with(authority.file(), files), Contains("extendedKeyUsage needs serverAuth"));
}

TEST_CASE("certificates: a service with authorities asks each client for a certificate") {
  TestAuthority authority;
  TestAuthority other("other");
  const auto service = opened(settings(authority.file(), authority.issue("node1")));
  CHECK(service->checks_clients());
  const auto node2 = authority.issue("node2", {.names = ""});
  const Talk talk(*opened(settings(authority.file(), node2)), *service);
  CHECK(talk.at_service == "a question");
  CHECK(talk.at_client == "an answer");

  const Talk without(*opened(settings(authority.file())), *service);
  CHECK(without.service_error == Errc::certificate_refused);
  CHECK_THAT(without.service->problem(), StartsWith("it has no certificate, and one is asked for"));
  CHECK(without.client_error == Errc::certificate_refused);
  CHECK(without.client->problem() == "it asks for a certificate: add --cert=FILE and --key=FILE");
  CHECK(without.at_service.empty());

  const auto strange = other.issue("node3");
  const Talk stranger(*opened(settings(authority.file(), strange)), *service);
  CHECK(stranger.service_error == Errc::certificate_refused);
  CHECK_THAT(stranger.service->problem(), Contains("is signed by CN=other, which is not in"));
  CHECK(stranger.client_error == Errc::certificate_refused);
  CHECK(stranger.client->problem() ==
        "it does not accept the certificate " + strange.certificate + " (unknown authority)");
  CHECK(stranger.at_service.empty());
}

TEST_CASE("certificates and keys from a secret do not stand in for each other") {
  TestAuthority authority;
  const auto with_certificate = opened(settings("", authority.issue("node1")));
  const Talk key_client(*tls(), *with_certificate);
  CHECK(key_client.client_error == Errc::certificate_refused);
  CHECK_THAT(key_client.client->problem(),
             StartsWith("it has a certificate, and this node's key comes from the secret"));
  CHECK(key_client.service_error == Errc::certificate_refused);
  const Talk key_service(*opened(settings(authority.file())), *tls());
  CHECK(key_service.client_error == Errc::certificate_refused);
  CHECK(key_service.client->problem() ==
        "it has no certificate that fits (its key may come from the secret: leave out --ca then)");
  CHECK(key_service.service_error == Errc::certificate_refused);
  CHECK_THAT(key_service.service->problem(), StartsWith("it expects a certificate"));
  CHECK(key_service.at_client.empty());
  CHECK(key_service.at_service.empty());
}

TEST_CASE("certificates: a damaged one behind a good one is not dropped") {
  TestAuthority authority;
  TestAuthority other("other");
  const auto text_of = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto both = [&](const std::string& name, std::string second) {
    const std::string path = authority.path(name);
    std::ofstream(path) << text_of(authority.file()) << second << "\nsome words behind it\n";
    return path;
  };
  const std::string good = text_of(other.file());
  std::string changed = good;
  changed[changed.find('\n') + 20] = '*';
  const std::string cut = good.substr(0, good.size() / 2);
  const auto node = authority.issue("node1");
  for (const std::string& damaged : {changed, cut}) {
    const std::string file = both("damaged", damaged);
    CHECK_THAT(refused(settings(file, node)),
               StartsWith("--ca=" + file + ": certificate 2 in it cannot be read ("));
    std::ofstream(node.certificate + ".chain") << text_of(node.certificate) << damaged;
    CHECK_THAT(refused(settings("", {node.certificate + ".chain", node.key})),
               StartsWith("--cert=" + node.certificate +
                          ".chain: certificate 2 in it cannot be "
                          "read ("));
  }
  opened(settings(both("whole", good), node));
  std::ofstream(authority.path("first")) << cut;
  CHECK_THAT(refused(settings(authority.path("first"))), Contains("certificate 1 in it"));
}

TEST_CASE("certificates: a file that cannot be used is named with the reason") {
  TestAuthority authority;
  const auto node = authority.issue("node1");
  const auto other = authority.issue("node2");
  const std::string text = authority.path("text");
  std::ofstream(text) << "not PEM\n";
  const std::string missing = authority.path("missing");
  CHECK(refused(settings(missing, node)) ==
        "--ca=" + missing + ": cannot read it: No such file or directory");
  CHECK_THAT(refused(settings(authority.file(), {authority.path(""), node.key})),
             Contains(": it is not a regular file"));
  CHECK_THAT(refused(settings(text)),
             StartsWith("--ca=" + text + ": it has no certificate in PEM"));
  CHECK_THAT(refused(settings(authority.file(), {node.key, node.key})),
             Contains("it has no certificate in PEM"));
  CHECK_THAT(refused(settings(authority.file(), {node.certificate, text})),
             StartsWith("--key=" + text + ": it has no private key in PEM"));
  CHECK(refused(settings(authority.file(), {node.certificate, other.key})) ==
        "--key=" + other.key + ": it is not the key of the certificate " + node.certificate);
  const std::string locked = authority.with_pass_phrase(node.key);
  CHECK_THAT(refused(settings(authority.file(), {node.certificate, locked})),
             StartsWith("--key=" + locked + ": the key has a pass phrase, and nobody is asked"));
}

TEST_CASE("certificates: a key that other users may read is warned of") {
  TestAuthority authority;
  const auto node = authority.issue("node1");
  REQUIRE(chmod(node.key.c_str(), 0644) == 0);
  tls();
  const auto opened = rdzv::open_tls(settings("", node));
  REQUIRE(opened.has_value());
  CHECK(opened->warning == "--key=" + node.key +
                               ": it has mode 0644, so other users have access to the key: run "
                               "chmod 600 " +
                               node.key);
}
