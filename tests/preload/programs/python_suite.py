"""Runs modules, classes or single tests of CPython's own tests, but those of other sockets than TCP's: a line per test with its verdict. The
reason of what went wrong goes to stderr."""
import faulthandler
import re
import signal
import sys
import unittest

from test import support

# Longest that a test may take, seconds.
LIMIT = 120
# Classes whose sockets are the kernel's, which only take time.
OTHERS = re.compile(r"UDP|SCTP|CAN|ISOTP|J1939|RDS|QIPCRTR|VSOCK|Bluetooth|Unix|SCMRights|TIPC|Crypto|Abstract|SendRecvFds|MacOS|MSWindows")


class Verdicts(unittest.TestResult):
    def tell(self, test, verdict, reason=""):
        print(f"{test.id().removeprefix('test.')} {verdict}", flush=True)
        if reason:
            print(f"--- {test.id()}\n{reason}", file=sys.stderr, flush=True)

    def startTest(self, test):
        super().startTest(test)
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()

    def addSuccess(self, test):
        self.tell(test, "ok")

    def addError(self, test, err):
        self.tell(test, "error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self.tell(test, "failure", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.tell(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.tell(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.tell(test, "unexpected success")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.tell(test, "failure", self._exc_info_to_string(err, test))


def without_others(suite):
    """Classes keep their own set-up: the runner makes it when the class changes."""
    if not isinstance(suite, unittest.TestSuite):
        return suite
    kept = [test for test in suite if isinstance(test, unittest.TestSuite) or not OTHERS.search(type(test).__name__)]
    return unittest.TestSuite(map(without_others, kept))


def main(names):
    # Whoever started this may have blocked some.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    support.verbose = 0
    support.use_resources = []
    for name in names:
        without_others(unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")).run(Verdicts())
    print("done")


main(sys.argv[1:])
