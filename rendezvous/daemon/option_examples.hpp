// An example of each option of rdzvd, for its man page and its page in Markdown. A test parses all
// of them.
#pragma once

#include <vector>

#include "texts/program_text.hpp"

namespace ddprun::rdzv {

inline std::vector<Term> option_examples() {
  return {
      {"--listen", "rdzvd --listen=10.0.0.5:29400"},
      {"--listen-timeout", "rdzvd --listen=10.0.0.5:29400 --listen-timeout=2m"},
      {"--allow-uid", "rdzvd --allow-uid=1000,1001"},
      {"--secret-file", "rdzvd --listen=10.0.0.5:29400 --secret-file=secret"},
      {"--secret-dir", "rdzvd --listen=10.0.0.5:29400 --secret-dir=/etc/ddprun/secrets"},
      {"--tls", "rdzvd --listen=10.0.0.5:29400 --secret-file=secret --tls"},
      {"--tls-cert", "rdzvd --listen=10.0.0.5:29400 --tls-cert=rdzvd.pem --tls-key=rdzvd.key"},
      {"--tls-key", "rdzvd --listen=10.0.0.5:29400 --tls-cert=rdzvd.pem --tls-key=rdzvd.key"},
      {"--tls-ca", "rdzvd --status --endpoint=node1:29400 --tls-ca=ca.pem"},
      {"--state-dir", "rdzvd --listen=10.0.0.5:29400 --state-dir=/var/lib/rdzvd"},
      {"--journal", "rdzvd --listen=10.0.0.5:29400 --journal=etcd://h1:2379,h2:2379,h3:2379"},
      {"--etcd-ca", "rdzvd --journal=etcds://h1:2379,h2:2379 --etcd-ca=ca.pem"},
      {"--etcd-cert",
       "rdzvd --journal=etcds://h1:2379 --etcd-ca=ca.pem --etcd-cert=rdzvd.pem "
       "--etcd-key=rdzvd.key"},
      {"--etcd-key",
       "rdzvd --journal=etcds://h1:2379 --etcd-ca=ca.pem --etcd-cert=rdzvd.pem "
       "--etcd-key=rdzvd.key"},
      {"--etcd-user",
       "rdzvd --journal=etcds://h1:2379 --etcd-user=rdzvd --etcd-password-file=secret"},
      {"--etcd-password-file",
       "rdzvd --journal=etcds://h1:2379 --etcd-user=rdzvd --etcd-password-file=secret"},
      {"--no-store", "rdzvd --no-store --secret-file=secret"},
      {"--no-old-dialect", "rdzvd --no-old-dialect"},
      {"--status", "rdzvd --status --endpoint=node1:29400"},
      {"--fence", "rdzvd --fence=node7 --run-id=job7 --endpoint=node1:29400"},
      {"--run-id", "rdzvd --status --run-id=job7"},
      {"--endpoint", "rdzvd --status --endpoint=node1:29400"},
      {"--json", "rdzvd --status --json"},
      {"--max-clients", "rdzvd --max-clients=20000"},
      {"--max-key-bytes", "rdzvd --max-key-bytes=4096"},
      {"--max-value-bytes", "rdzvd --max-value-bytes=1048576"},
      {"--max-list-elements", "rdzvd --max-list-elements=10000"},
      {"--max-request-bytes", "rdzvd --max-request-bytes=67108864"},
      {"--max-store-bytes", "rdzvd --max-store-bytes=2147483648"},
      {"--max-waited-keys", "rdzvd --max-waited-keys=10000"},
      {"--max-unread-bytes", "rdzvd --max-unread-bytes=1048576"},
      {"--max-tenant-jobs", "rdzvd --secret-dir=secrets --max-tenant-jobs=100"},
      {"--max-tenant-nodes", "rdzvd --secret-dir=secrets --max-tenant-nodes=2000"},
      {"--handshake-timeout", "rdzvd --handshake-timeout=10"},
      {"--log-level", "rdzvd --log-level=info"},
      {"--stats-interval", "rdzvd --log-level=info --stats-interval=1m"},
      {"--completion", "rdzvd --completion=bash"},
      {"--man", "rdzvd --man | man -l -"},
      {"--version", "rdzvd --version"},
      {"--help", "rdzvd --help=limits"},
  };
}

}  // namespace ddprun::rdzv
