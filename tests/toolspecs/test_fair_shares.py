"""Fair shares: who was served least comes next; idle time is not saved up, excess is not forgotten."""

from toolspecs.fairness import fair_shares
from toolspecs.fairness.fair_shares import FairShares


def rounds(shares, names, number, cost=1.0):
    """Serve the next of `names` again and again; returns how often each came."""
    served = dict.fromkeys(names, 0)
    for _ in range(number):
        name = min(names, key=shares.served)
        shares.charge(name, cost)
        served[name] += 1
    return served


def test_clients_that_want_all_the_time_get_the_same():
    shares = FairShares()
    for name in "abc":
        shares.enter(name)
    assert rounds(shares, "abc", 30) == {"a": 10, "b": 10, "c": 10}


def test_a_newcomer_gets_its_part_and_not_what_it_missed():
    shares = FairShares()
    shares.enter("old")
    rounds(shares, ["old"], 100)
    shares.enter("new")
    assert rounds(shares, ["old", "new"], 10) == {"old": 5, "new": 5}


def test_leaving_for_a_moment_does_not_clear_what_was_used():
    shares = FairShares()
    shares.enter("steady")
    shares.enter("greedy")
    shares.charge("greedy", 5.0)
    shares.leave("greedy")
    shares.enter("greedy")
    assert rounds(shares, ["greedy", "steady"], 5) == {"greedy": 0, "steady": 5}


def test_staying_away_gives_no_credit():
    shares = FairShares()
    shares.enter("steady")
    shares.enter("idle")
    shares.leave("idle")
    rounds(shares, ["steady"], 50)
    shares.enter("idle")
    assert rounds(shares, ["idle", "steady"], 10) == {"idle": 5, "steady": 5}


def test_a_client_is_present_until_everything_it_wanted_is_done():
    shares = FairShares()
    for _ in range(2):
        shares.enter("a")
    shares.enter("b")
    shares.charge("a", 3.0)
    shares.leave("a")
    assert shares.served("a") - shares.served("b") == 3.0


def test_nothing_is_remembered_once_everybody_has_left():
    shares = FairShares()
    shares.enter("a")
    shares.charge("a", 100.0)
    shares.leave("a")
    shares.enter("a")
    shares.enter("b")
    assert shares.served("a") == shares.served("b")


def test_many_clients_that_come_and_go_are_forgotten_the_largest_last(monkeypatch):
    monkeypatch.setattr(fair_shares, "MAX_REMEMBERED", 8)
    shares = FairShares()
    shares.enter("steady")
    for number in range(1000):
        shares.enter(f"s{number}")
        shares.charge(f"s{number}", 1000.0 if number == 3 else 1.0)
        shares.leave(f"s{number}")
    assert len(shares._served) <= 10
    shares.enter("s3")
    assert shares.served("s3") == 1000.0
