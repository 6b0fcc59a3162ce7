"""Hosts whose schedulers give the variables of their nodes, and no option. tests/cluster has the schedulers themselves."""

import json
import unittest

import harness
from harness import MEETING_WORKER, Hosts, HostsTest

harness.enter_namespaces()

# Ends each connection at once.
STRANGER = ["python3", "-c", "import socket, sys\n"
            "server = socket.create_server(('', int(sys.argv[1])))\n"
            "print('there', flush=True)\n"
            "while True: server.accept()[0].close()"]


def step(rank):
    """Of Slurm: on node2 to node4 of a job that has node1, too."""
    return {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_NUM_TASKS": "3",
            "SLURM_STEP_NODELIST": "node[2-4]", "SLURM_NODEID": str(rank), "SLURM_PROCID": str(rank),
            "SLURMD_NODENAME": f"node{rank + 2}", "SLURM_JOB_NODELIST": "node[1-4]", "SLURM_JOB_NUM_NODES": "4",
            "SLURM_LAUNCH_NODE_IPADDR": "192.168.77.1"}


class Clusters(HostsTest):
    def slurm(self, hosts, *words):
        return [hosts.ddprun(hosts[rank + 1], "--nproc-per-node=2", *words, MEETING_WORKER, **step(rank))
                for rank in range(3)]

    def check_slurm(self, hosts, nodes):
        self.finish(hosts, nodes)
        self.assertEqual(self.met(nodes)[0], [f"{rank}/6" for rank in range(6)], nodes[0])
        for rank, node in enumerate(nodes):
            self.assertEqual(node.out.count(f" node={rank}/3 "), 2, node)

    def test_a_step_of_slurm_forms_a_job_by_its_variables(self):
        for loopback_names in (False, True):
            with self.subTest(loopback_names=loopback_names), Hosts(4, loopback_names) as hosts:
                self.check_slurm(hosts, self.slurm(hosts))

    def test_ports_of_other_programs_and_jobs_are_passed_by(self):
        with Hosts(4) as hosts:
            plan = hosts.ddprun(hosts[1], "--dry-run=json", MEETING_WORKER, **step(0))
            self.assertEqual(plan.wait(), 0, plan)
            first = int(json.loads(plan.out)["rendezvous"]["endpoint"].rpartition(":")[2])
            stranger = hosts.run(hosts[1], [*STRANGER, first])
            stranger.wait_for("there")
            # It waits for another node, at a port that is a candidate of the step's.
            other = hosts.ddprun(hosts[1], "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=node2:{first + 1}",
                                 "--rdzv-id=other", "--log-level=info", MEETING_WORKER)
            other.wait_for("is here: ")
            nodes = self.slurm(hosts)
            for node in nodes:
                self.assertEqual(node.wait(60), 0, node)
            self.assertIsNone(other.status, other)
            last = hosts.ddprun(hosts[2], "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=node2:{first + 1}",
                                "--rdzv-id=other", MEETING_WORKER)
            for node in (last, other):
                self.assertEqual(node.wait(), 0, node)
            self.assertEqual(self.met(nodes)[0], [f"{rank}/6" for rank in range(6)], nodes[0])

    def test_a_first_host_without_a_free_port_is_told_which_ones_it_wanted(self):
        with Hosts(4) as hosts:
            stranger = hosts.run(hosts[1], [*STRANGER, 31000])
            stranger.wait_for("there")
            node = hosts.ddprun(hosts[1], "--port-range=31000:31000", MEETING_WORKER, **step(0))
            self.assertEqual(node.wait(), 69, node)
            self.assertRegex(node.err, r"the rendezvous cannot listen on 192\.168\.77\.2 port 31000: .*python3.* has it")

    def test_mpirun_gives_ranks_and_the_endpoint_is_typed(self):
        with Hosts(2) as hosts:
            nodes = [hosts.ddprun(host, "--rdzv-endpoint=node2", MEETING_WORKER, OMPI_COMM_WORLD_SIZE="2",
                                  OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_SIZE="1",
                                  OMPI_COMM_WORLD_LOCAL_RANK="0") for rank, host in enumerate(hosts)]
            self.finish(hosts, nodes)
            for rank, node in enumerate(nodes):
                self.assertIn(f"met rank={rank}/2 node={rank}/2 ", node.out, node)


if __name__ == "__main__":
    unittest.main()
