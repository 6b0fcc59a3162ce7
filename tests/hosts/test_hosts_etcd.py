"""Several rdzvd with an etcd on other hosts, for some seconds; test_hosts_etcd_slow.py has more."""

import unittest

import harness
from over_etcd import OverEtcdTest

harness.enter_namespaces()


class OverEtcd(OverEtcdTest):
    def test_no_worker_notices_that_leading_rdzvd_are_killed_for_a_quarter_of_a_minute(self):
        self.check_kills(15)


if __name__ == "__main__":
    unittest.main()
