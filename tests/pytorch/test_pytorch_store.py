"""rdzvd as the store of PyTorch's own programs: of its TCPStore client, and of torchrun's agents."""

import contextlib
import difflib
import subprocess
import unittest

from harness import WORKERS, Started, TorchTest, run, store_daemon, with_each_torch, with_each_torchrun


@contextlib.contextmanager
def store_of_pytorch(torch):
    command = [torch.python, WORKERS / "store_server.py"]
    with Started(command, torch.environment(), stdin=subprocess.PIPE) as server:
        port = server.process.stdout.readline().strip()
        if not port:
            raise AssertionError(server.wait(10))
        yield "127.0.0.1", int(port)
        server.process.stdin.close()


class Store(TorchTest):
    def transcript(self, torch, host, port):
        result = run([torch.python, WORKERS / "store_api.py", host, port], torch.environment(), self.folder)
        self.assertEqual(result.status, 0, result)
        return result.out.splitlines()

    @with_each_torch
    def test_every_method_of_the_client_gives_what_it_gives_with_pytorchs_own_server(self, torch):
        with store_of_pytorch(torch) as address:
            expected = self.transcript(torch, *address)
        with store_daemon() as address:
            told = self.transcript(torch, *address)
        self.assertGreater(len(expected), 40)
        self.assertEqual(told, expected, "\n".join(difflib.unified_diff(expected, told, "PyTorch's", "ours", n=0)))

    @with_each_torchrun
    def test_two_torchrun_agents_meet_in_it_and_their_workers_form_a_group(self, torch):
        with store_daemon() as (host, port):
            agent = torch.torchrun("--nnodes=2", "--nproc_per_node=2", "--rdzv_backend=c10d", f"--rdzv_endpoint={host}:{port}",
                                   "--rdzv_id=two nodes", "--rdzv_conf=is_host=0", "--monitor_interval=0.1",
                                   WORKERS / "ddp.py", "env")
            with Started(agent, torch.environment(), self.folder) as first, \
                 Started(agent, torch.environment(), self.folder) as second:
                results = [first.wait(100), second.wait(100)]
        for result in results:
            self.assertEqual(result.status, 0, result)
        self.assertEqual(sorted((results[0].out + results[1].out).splitlines()),
                         [f"rank {rank} of 4: equal parameters, averaged gradients" for rank in range(4)], results[0])


if __name__ == "__main__":
    unittest.main()
