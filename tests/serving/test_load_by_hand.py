"""Where the rounds of a load on a made-up rank agree: every line of docs/method.md, "Closed loop", at the answer."""

from types import SimpleNamespace

import pytest
from every_case import each
from made_up_rank import PROMPTS_FIRST, Rank, rank

import roofline as rl
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.serving.latency import UNIFORM, Lengths, Spread, Workload, lengths_by_law, lengths_of_rows
from roofline.serving.load import equations as module
from roofline.serving.load.equations import all_slots_taken, saturation, slot_wait
from roofline.serving.load.rounds import meeting
from roofline.serving.load.server import PromptNode, Server, link_wait, prompt_of, prompt_tokens
from roofline.serving.prompts import PromptKind
from roofline.specs.load import Rate, Users, load_of

ALONE = 19.6  # a prompt of 50 tokens on an idle rank
close = lambda number: pytest.approx(number, rel=1e-9)  # noqa: E731


@pytest.fixture
def answered(monkeypatch):
    """What requests see on a made-up rank, and the rank."""

    def served(server=None, osl=101.0, options=None, **load):
        server = server or rank(osl=osl, **(options or {}))
        monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
        return module.served_at_random(server.deployment, Workload(50.0, osl, load_of(load))), server

    return served


def adds(scheduler, tokens):
    """P of a prompt that shares its step with none, among others."""
    bracket = 12.4 + tokens / 10 + 1.6 if scheduler == PROMPTS_FIRST else 10 + tokens / 10
    return 2 * (bracket + 1) + 4


@each("scheduler", ["decode first", PROMPTS_FIRST])
def test_random_arrivals_meet_as_many_as_their_rate_and_their_answers_make(scheduler):
    with pytest.MonkeyPatch.context() as monkeypatch:
        rate, server = 1 / 384, rank(scheduler=scheduler)
        monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
        found = module.served_at_random(server.deployment, Workload(50.0, 101.0, Rate(rate)))
    others, seen = found.state
    met = meeting(server, prompt_of(server), rate, others, seen, None)
    assert (rate * met.decode, met.seen) == close((others, seen))
    assert found.ttft == close(1.25 + met.stage)  # there are more slots than anybody waits for
    assert found.queue == close(met.stage - ALONE)
    assert (found.tpot, found.decode, found.batch) == close((met.step, met.decode, 1 + others))
    assert found.prompt_share == close(met.prompt / (100 * met.mean_step))
    assert found.concurrency == close(rate * (found.ttft + found.decode))
    full = saturation(server, prompt_of(server))
    assert (found.max_request_rate, found.slots, found.waiting_share) == close((full.rate, 64, 0))
    assert (found.rho, found.rho_chunks, found.nobody) == close((met.rho, met.rho_chunks, met.nobody))
    assert found.is_stable


def test_random_arrivals_wait_for_slots_besides(answered):
    found, server = answered(options={"slots": 4.0, "prefill_slowdown": 1.0}, request_rate=1 / 400)
    others, seen = found.state
    met = meeting(server, prompt_of(server), 1 / 400, others, seen, None)
    share, wait = slot_wait(server, saturation(server, prompt_of(server)), met, 1 / 400, others)
    assert share > 0.01
    assert (found.waiting_share, found.ttft) == close((share, 1.25 + met.stage + wait))
    assert not answered(options={"slots": 4.0}, request_rate=1 / 50)[0].is_stable


@each(
    ("osl", "share_of_most", "free"),
    [
        (3.0, 0.9, 0.2**2 / (2 + 2 / 15)),  # of the slots, after answers that ended together
        (101.0, 0.95, 0.1**2 / (2 + 100 / 15)),
        (3.0, 0.4, None),  # fewer answers than slots
    ],
)
def test_where_all_slots_are_taken_an_answer_takes_as_long_as_they_come_round(osl, share_of_most, free):
    server = rank(scheduler=PROMPTS_FIRST, slots=4.0, osl=osl)
    prompt = prompt_of(server)
    full = saturation(server, prompt)
    rate = share_of_most * full.rate
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
        found = module.served_at_random(server.deployment, Workload(50.0, osl, Rate(rate)))
    met = meeting(server, prompt, rate, found.state[0], found.state[1], None)
    needed = rate * met.decode  # by the passes that every free slot admits
    if free is None:
        assert needed < 4.0
        assert found.decode == close(met.decode)
        return
    taken = 4 * (1 - free)
    assert needed > 4.0
    assert found.state == close((taken, met.seen))
    assert (found.decode, found.tpot) == close((taken / rate, taken / rate / (osl - 1)))
    met = met._replace(decode=taken / rate)
    share, wait = slot_wait(server, full, met, rate, taken)
    assert found.waiting_share == close(max(share, 1 - 4 / needed))
    wait = max(wait, (1 - 4 / needed) / (full.rate - rate))  # that share, at what is left of saturation
    assert found.ttft == close(1.25 + met.stage + wait)
    assert (share > 1 - 4 / needed) == (osl == 101.0)


def test_free_slots_are_half_of_all_where_hardly_any_answer_ends_beside_another():
    server = rank(scheduler=PROMPTS_FIRST, slots=4.0, osl=1.0 + 1e-9)
    full = saturation(server, prompt_of(server))
    for share in (0.1, 0.5):  # at half of what can be served, and below
        rate = share * full.rate
        assert all_slots_taken(server, full, rate) == close(4 / rate / 2)
    assert all_slots_taken(server, full, full.rate) == close(4 / full.rate)


@each("rate", [0.1, 0.999])
def test_where_decoding_comes_first_no_answer_takes_longer_than_at_saturation(rate):
    server = rank(slots=4.0)
    full = saturation(server, prompt_of(server))
    assert all_slots_taken(server, full, rate * full.rate) == close(4 / full.rate)


def test_more_than_can_be_served_is_looked_at_where_all_but_a_ten_thousandth_of_it_comes(answered):
    found, server = answered(request_rate=1.0)
    most = saturation(server, prompt_of(server)).rate
    assert (found.is_stable, found.ttft, found.queue) == (False, float("inf"), float("inf"))
    assert (found.request_rate, found.max_request_rate) == (1.0, close(most))
    assert found.rho == close(0.9999 * most * found.prompt)


@each("scheduler", ["decode first", PROMPTS_FIRST])
@each(("users", "network"), [(1.0, 0.25), (2.5, 0.25), (7.0, 0.25), (7.0, 500.0), (9.0, 0.25), (9.0, 500.0)])
def test_users_are_all_somewhere(scheduler, users, network):
    with pytest.MonkeyPatch.context() as monkeypatch:
        server = rank(scheduler=scheduler, slots=7.0, users=users, network=network)
        monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
        found = module.served_at_random(server.deployment, Workload(50.0, 101.0, Users(users)))
    others, seen, rate = found.state
    inside = min(users, 7.0)
    spare = (users - inside) / rate  # as long another user waits in front of the server
    met = meeting(server, prompt_of(server), rate * (inside - 1) / inside, others, seen, inside, spare)
    # seven slots: while the user of one is away, another takes it over, unless all are on their way
    late, before = server.arrival(others, inside), network + 1
    if scheduler == PROMPTS_FIRST:  # who gather ask one after the other, the last while nobody decodes
        back = max((before + 0.5 * (inside - 1) ** 0.5 - spare) / met.plain, 0)
        back = max(1, back + 1 / 2) * min(1, 10 * back)
        gathered = min(1, back / (5 * 0.17 * 101 * (inside - 1) / (inside + 1))) ** 4 if inside > 1 else 1.0
        of_all = 0.5 * ((inside - 1) ** 1.5 * 2 / 3 + (inside - 1) ** 0.5 / 2 - 0.2 * min(inside - 1, 1)) / inside
        late += gathered * (of_all - late)
        assert (gathered > 0.1) == (users < 2 or (users, network) == (7, 500))
    assert met.late == close(late)
    away = before + late - spare
    assert (away > 0.0) == (users <= 7.0 or network > 1)
    cycle = max(away, 0) + met.stage - late + met.decode
    if scheduler == PROMPTS_FIRST and away < 0:  # no slot is ever free: seven answers in a hundred steps
        assert rate * seen == close(inside / 100)
        assert rate * cycle == pytest.approx(inside, rel=1e-3)
    else:
        assert rate * cycle == close(inside)
    assert rate * (inside - 1) / inside * met.decode == close(others)
    assert found.ttft == close(users / rate - met.decode)
    assert (found.tpot, found.decode) == close((met.step, met.decode))
    assert found.request_rate == close(users / (found.ttft + found.decode))
    assert found.waiting_share == close(1 - inside / users)
    assert found.batch == close(min(users, 1 + others))
    assert found.queue == pytest.approx(found.ttft - before - ALONE, abs=1e-9)


@each("scheduler", ["decode first", PROMPTS_FIRST])
def test_the_start_of_a_run_is_a_burst_of_all_users(scheduler):
    with pytest.MonkeyPatch.context() as monkeypatch:
        server = rank(scheduler=scheduler, slots=4.0)
        monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
        steady, run, all_burst = (
            module.served_at_random(server.deployment, Workload(50.0, 101.0, Users(8.0, number)))
            for number in (None, 80.0, 8.0)
        )
    # four have a slot: half of three prompts before one's own, the other half between one's 100 steps;
    # with prompts first nobody decodes meanwhile, and no prompt is slowed down
    each_prompt = run.prompt / (2 if scheduler == PROMPTS_FIRST else 1)
    first = 1.25 + ALONE + 1.5 * each_prompt + 8 / 2  # nobody decodes when they arrive
    step = 8 + 1.5 * each_prompt / 101
    first += first + 100 * step  # the second four wait for the answers of the first
    assert (all_burst.ttft, all_burst.tpot) == close((first, step))
    assert run.ttft == close(0.1 * first + 0.9 * steady.ttft)
    assert run.tpot == close(0.1 * step + 0.9 * steady.tpot)
    assert run.decode == close(steady.decode * run.tpot / steady.tpot)
    assert run.request_rate == close(8 / (run.ttft + run.decode))


def test_one_user_of_a_run_is_alone(answered):
    run, _ = answered(concurrency=1.0, num_prompts=1.0)
    assert (run.ttft, run.tpot) == close((1.25 + ALONE, 5.0))


@each(
    ("users", "network", "bunches"),
    [
        (1.0, 0.25, 1),  # alone, which takes longer than a pass
        (1.5, 0.25, 1.5),  # no more bunches than users
        (2.0, 0.25, 2),  # one is computed, one waits
        (8.0, 0.25, 2),
        (20.0, 0.25, 2),
        (12.0, 99.0, None),  # a hundred seconds on the way: as many passes as fit in
        (40.0, 59.0, 2),
    ],
)
def test_single_tokens_of_many_users_follow_each_other_without_a_gap(users, network, bunches):
    server = rank(osl=1.0, network=network, prefill=0.0, scheduler=PROMPTS_FIRST)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "server_of", lambda deployment, workload: server)
        found = module.served_at_random(server.deployment, Workload(50.0, 1.0, Users(users)))
    before = network + 1.0
    if bunches is None:
        bunches = 2.0
        for _ in range(3):
            bunches = 1 + before / pass_of_about(users / bunches)
        assert 3.5 < bunches < 3.6
    assert found.ttft == close(max(bunches * pass_of_about(users / bunches), before + ALONE))
    assert found.decode == 0.0
    assert found.request_rate == close(users / found.ttft)


def pass_of_about(count):
    """On the line through one standard deviation of a Poisson number less, and more: 14 + 5 k + k, or full passes."""
    few, many = max(count - count**0.5, 1), max(count + count**0.5, 2)
    low, high = (14 + 6 * k if k <= 4.06 else 38.36 * k / 4.06 for k in (few, many))
    return low + (high - low) * (count - few) / (many - few)


def test_prefixes_that_are_loaded_wait_for_their_link(answered):
    class Loading(Rank):
        kinds = (PromptKind(0.5, 50.0, 50.0, 8.0), PromptKind(0.5, 100.0, 0.0, 0.0))

    server = Loading(rank().deployment, 100.0, 101.0, 50.0)
    prompt = prompt_of(server)
    # half compute 50 tokens after a prefix, 19.6, the others 100: 13.6 + 10 + 4
    assert [tuple(node) for node in prompt.nodes] == [(0.5, 50.0, 1.0, 19.6), (0.5, 100.0, 4.0, 27.6)]
    assert (prompt.length, prompt.attention, prompt.alone, prompt.head) == close((75.0, 2.5, 23.6, 1.6))
    assert server.before == close(1.25 + 4.0)
    found, _ = answered(server=server, request_rate=1 / 384)
    others, seen = found.state
    met = meeting(server, prompt, 1 / 384, others, seen, None)
    late = link_wait(server, 1 / 384, None).over_all
    assert late == close(8 / 768 * 8 / (2 * (1 - 8 / 768)) / 2)
    assert found.ttft == close(5.25 + met.stage + late)
    users, _ = answered(server=server, concurrency=5.0)
    others, seen, rate = users.state
    met = meeting(server, prompt, rate * 0.8, others, seen, 5.0)
    late = link_wait(server, rate, 5.0).over_all
    assert late > 0.0
    assert rate * (5.25 + late + met.stage + met.decode) == close(5.0)
    assert users.ttft == close(5 / rate - met.decode)


def test_what_follows_a_prefix_spreads_and_the_prefix_of_a_miss_does_not():
    hit, miss = PromptKind(0.5, 50.0, 50.0, 8.0), PromptKind(0.5, 100.0, 0.0, 0.0)
    mixed, plain = SimpleNamespace(kinds=(hit, miss), fresh=50.0), SimpleNamespace(kinds=(hit,), fresh=50.0)
    assert [prompt_tokens(mixed, kind, 1.5) for kind in (hit, miss)] == [75.0, 125.0]
    assert [prompt_tokens(server, hit, 0.001) for server in (mixed, plain)] == [1.0, 1.0]
    assert prompt_tokens(plain, hit, 1.5) == 75.0
    assert prompt_of(rank()).mean(lambda node: node) == PromptNode(1.0, 50.0, 1.0, ALONE)


# --- the steps of a server -------------------------------------------------------------------------

H100 = rl.predict("llama-3.1-8b", "h100:tp1", isl=1000, osl=100, request_rate=1e-3).deployment
RANKS = rl.predict("mixtral-8x7b", "h200:tp1dp2ep2", isl=1000, osl=100, request_rate=1e-3).deployment


def test_decode_steps_run_at_the_mean_length_of_those_who_run_them():
    lengths = Lengths(prompts=Spread(cv=0.5), answers=Spread(cv=0.5), product=1.2)
    server = Server(H100, 1000.0, 101.0, 400.0, lengths=lengths)
    # 600 tokens beyond the prefix, met 1.2 times as long; answers a quarter longer
    assert server.decode_pass(4.0).time == decode_pass(H100, 4.0, 1000 + 600 * 0.2, 101 * 1.25 - 1).time
    plain = Server(H100, 1000.0, 101.0, 400.0)
    assert plain.decode_pass(4.0).time == decode_pass(H100, 4.0, 1000.0, 100.0).time
    for one in (Server(H100, 1000.0, 1.0), Server(H100, 1000.0, 1.0, lengths=Lengths(answers=Spread(cv=0.5)))):
        assert one.decode_pass(4.0).time == decode_pass(H100, 4.0, 1000.0, 1.0).time


def test_ranks_step_together_and_between_whole_sequences_on_a_line():
    few, many = Server(RANKS, 1000.0, 101.0, users=1.0), Server(RANKS, 1000.0, 101.0)
    assert many.decode_pass(3.0).time == decode_pass(RANKS, 1 + 2 * 2.0, 1000.0, 100.0).time
    shared = Server(RANKS, 1000.0, 101.0, users=8.0)
    assert shared.decode_pass(3.0).time == decode_pass(RANKS, 2 + 2 * 2.0, 1000.0, 100.0).time
    assert few.decode_pass(1.0).time == decode_pass(RANKS, 1.0, 1000.0, 100.0).time
    low, high = (many.decode(number).total for number in (3.0, 4.0))
    assert many.decode(3.25).total == pytest.approx(0.75 * low + 0.25 * high, rel=1e-12)
    # prompts run on every busy rank: of eight users both, of one who decodes and comes at random one
    parts = [many.linear(1.0, 500.0), shared.linear(1.0, 500.0), many.linear(1.25, 500.0)]
    whole = [linear_of(prefill_pass(RANKS, ranks, tokens)) for ranks, tokens in ((1, 501), (2, 501), (1.5, 501.25))]
    assert parts == pytest.approx(whole, rel=1e-12)


def linear_of(passed):
    """Time of everything but attention, head and host."""
    return sum(
        kernel.time
        for kernel in passed.kernels
        if not kernel.kind.is_per_sequence and kernel.part != "head" and kernel.kind.name != "host"
    )


def test_slots_are_as_many_as_are_let_in_and_find_memory():
    engine = rl.predict("llama-3.1-8b", "h100:tp1pp2", isl=1000, osl=100, request_rate=1e-3, max_num_seqs=7)
    assert Server(engine.deployment, 1000.0, 100.0).slots == 3.0  # half of seven in each turn of the pipeline
    one = rl.predict("llama-3.1-8b", "h100:tp1pp2", isl=1000, osl=100, request_rate=1e-3, max_num_seqs=1)
    assert Server(one.deployment, 1000.0, 100.0).slots == 1.0
    assert module.server_of(engine.deployment, Workload(1000.0, 100.0, Users(9.0))).users == 4.5
    assert module.server_of(engine.deployment, Workload(1000.0, 100.0, Users(1.0))).users == 1.0


# --- lengths ---------------------------------------------------------------------------------------


@each(("cv", "median"), [(0.75, 0.8), (3**0.5, 0.5)])
def test_the_median_of_a_log_normal_is_its_mean_over_the_root_of_one_and_the_square_of_its_cv(cv, median):
    slices = lengths_by_law("lognormal", cv, 0.0).prompts.slices
    weight, middle = slices[3]  # from 45 to 55 %
    assert (weight, middle) == pytest.approx((0.1, median), rel=1e-12)


def test_equal_lengths_are_one_node_and_one_slice():
    answers = lengths_by_law("lognormal", 0.5, 0.0).answers
    assert (answers.nodes, answers.slices) == (((1.0, 1.0),), ((1.0, 1.0),))


def test_a_uniform_length_has_its_quantiles_on_a_line():
    # cv 0.5: from 1 - 0.866 to 1 + 0.866; the first slice is 15 % wide, the last 0.3 %
    slices = lengths_by_law(UNIFORM, 0.5, 0.0).prompts.slices
    assert slices[0] == pytest.approx((0.15, 1 - 0.5 * 3**0.5 * 0.85), rel=1e-12)
    assert slices[-1] == pytest.approx((0.003, 1 + 0.5 * 3**0.5 * 0.997), rel=1e-12)


def test_rows_that_hardly_differ_are_equal_and_others_are_averaged_in_slices():
    assert lengths_of_rows([(100_000, 10), (100_001, 10)], "trace")[2].prompts.is_fixed
    isl, osl, found = lengths_of_rows([(10, 1), (20, 3), (30, 5), (60, 7)], "trace")
    assert (isl, osl) == (30, 4)
    assert found.prompts.cv**2 == pytest.approx((100 + 400 + 900 + 3600) / 4 / 900 - 1)
    # a quarter of the rows each: ends of bins are rounded to whole rows
    assert found.prompts.nodes == tuple((0.25, pytest.approx(length / 30)) for length in (10, 20, 30, 60))
    assert found.product == pytest.approx((10 + 60 + 150 + 420) / 4 / 120)
    assert found.prompts.slices[0][1] == pytest.approx(1 / 3)
    assert found.prompts.slices[3][1] == pytest.approx(1.0)  # the middle of four is the third
    assert found.prompts.slices[-1][1] == pytest.approx(2.0)
