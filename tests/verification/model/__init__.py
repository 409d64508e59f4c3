"""The protocol alone, as states and transitions, searched to the end.

Two drivers, one execution, the outside, and time. A state is a value; `protocol.moves` gives what may happen next in
it; `search` visits every state that can be reached and asks `rules` of each whether something went wrong. `guards`
lists what the protocol rests on: without any one of them the search finds a bad end, or says which other guard covers
for it.

    python -m tests.verification.model                   searches, and prints the number of states
    python -m tests.verification.model --without seal    prints the shortest way to a bad end

Each transition stands for one place of the engine. What a driver does between two calls of the store is one
transition too, since the clock may move, and others may write, between any two.

| transition                  | the place in the engine                                                              |
| ---                         | ---                                                                                  |
| look                        | `claim.claim_stored`: the version at hand, and `Execution.is_runnable`               |
| claim                       | `claim.claim_stored`: `Store.replace` of what `transitions.claim` gives              |
| create as claimed           | `claim.claim_new`: `Store.create` of what `transitions.claim` gives                  |
| load                        | `lease.Lease.load` and `_read_partition`                                             |
| seal                        | `lease.Lease.load`: the loop around `Store.append` of the `Takeover`; a heartbeat    |
|                             | that is due comes before it, and after that a load of what is counted by then        |
| deliver, start, rest        | `drive.Drive._step`: `Delivery.next_event`, `_is_at_rest`, `Activities.start`         |
| append                      | `lease.Lease.append`                                                                 |
| suspend, complete, release  | `lease.Lease.let_go`: `Store.commit` of what `transitions.suspend`, `complete` and   |
|                             | `release` give                                                                       |
| give up                     | `drive.Drive._suspend_because` of a `MissingDocument`; `Lease.let_go` before the seal |
| extend                      | `lease.Lease.extend`: the heartbeat; after a conflict the exec document, the         |
|                             | heartbeat again, then the inbox                                                      |
| refresh, inbox              | `lease.Lease.refresh`: the exec document first, then the inbox                       |
| an activity ends            | `activities.Activities._perform`                                                     |
| the answer is lost, re-sent | `store.cosmos`: `replace`, `append`, `commit` read back what stands (`writeId`)      |
| a value comes               | `client.Client.complete`: `Store.signal`                                             |
| an interrupt comes          | `client.Client.interrupt`: `Store.interrupt`                                         |
| terminate, resume           | `requests.Requests`: `Store.replace` of what `transitions.terminate`, `resume` give  |
| crash                       | `drive.Drive.run` ends in the middle: nothing is written any more                    |
| loses the store             | `drive.Drive.run`: `Lease.uncount_claim`; without it, a crash                        |
| a heartbeat is due          | `lease.Lease.heartbeat_at` has passed                                                |
| the lease expires           | `Execution.is_leased` turns false: its end and the skew have passed                  |

A frozen driver needs no transition: each may wait for ever between two of its own, while the lease expires and the
other one takes over, and then go on. The exec document changes by the engine's own table, in
`engine/store/transitions.py`. `test_ties.py` compares the programs with the engine's `Run`.

Files, from the bottom up:

    exec       the exec document, and the engine's table of its transitions
    programs   four workflows, as pure functions of their history
    state      the drivers, the whole state
    guards     what the protocol rests on, by name
    rules      what may never happen
    protocol   the transitions of drivers, of the outside and of time
    search     breadth first, and the shortest way back
"""
