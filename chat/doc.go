// Package chat answers a thread by text.
//
//	POST …/messages    /text/session/…    /conductor    the queue      doors, in web
//	       └───────────────┴───────┬────────┴─────────────┘
//	                          Coordinator.Turn             one at a time on a thread
//	                               │ a goroutine of its own
//	   thread ── History ──▶ Request ──▶ Provider.Stream   text, calls, usage
//	      ▲                        ▲            │
//	      │                        └─ results ──┤ calls
//	      │                    toolkit.Router ◀─┘ or the client of the turn
//	      └── one message: step-start, text, tool parts …
//
// A turn is begun in one transaction: it takes the thread (a row with a lease, so
// that no other instance on the same PostgreSQL runs one), closes calls that a
// client left open, and saves the user's message with an empty answer. Whatever
// a client has to write together with that goes into TurnRequest.Opening. From
// then on the turn depends on nobody: a client that goes away changes nothing, and
// its end always is a saved message — completed, interrupted, or failed with
// words that say why.
//
// While it runs, the text so far is sent to the thread's watchers some eight times
// a second and saved once a second, beside the stream, which a slow database does not hold
// up; each save renews the lease and is refused when the turn has lost its thread. An end that
// falls into an outage is announced at once and saved when the database is back.
// [Turn.Events] gives the same turn piece by piece to any number of readers, from
// any event on.
//
// A tool of Config.ApproveTools waits for the user's yes. The question is a row that
// is saved with the call, and sent to the thread's watchers; the answer, which
// [Coordinator.Decide] writes, may come to any instance. No answer within a minute
// is a no.
//
// A question of a voice call comes by a tool, [Coordinator.AskAgent], as a turn without
// a user's message.
//
// # For the doors
//
// Threads: Coordinator.Turn, then Turn.Wait for JSON, or Turn.Events for a stream;
// Coordinator.Running finds the turn again after a reconnect, Coordinator.Interrupt
// stops it. The kinds of events are those of the AI SDK's UI message stream, in
// its order, so that one event becomes one chunk:
//
//	EventStart        {"type":"start","messageId":MessageID}
//	EventStepStart    {"type":"start-step"}
//	EventTextStart    {"type":"text-start","id":TextID}
//	EventTextDelta    {"type":"text-delta","id":TextID,"delta":Delta}
//	EventTextEnd      {"type":"text-end","id":TextID}; with Notice the words are those of Result.Err
//	EventReasoning…   {"type":"reasoning-start|-delta|-end"}, as those of text
//	EventToolInput    {"type":"tool-input-available","toolCallId","toolName","input","dynamic":Call.Dynamic}
//	EventToolApproval {"type":"data-tool-approval","id":Call.ID,"data":{…},"transient":true}
//	EventToolDecided  the same, with the answer
//	EventToolProgress {"type":"data-tool-progress","id":Call.ID,"data":{…},"transient":true}
//	EventToolOutput   {"type":"tool-output-available","toolCallId","output","dynamic"}
//	                  or {"type":"tool-output-error","toolCallId","errorText","dynamic"} when Call.Error is set
//	EventToolAsked    nothing: it is for clients that run tools
//	EventStepFinish   {"type":"finish-step"}
//	EventFinish       {"type":"error","errorText"} when Result.Err is set, else {"type":"abort"} when
//	                  Result.Finish is FinishInterrupted; then {"type":"finish","finishReason"} and data: [DONE]
//
// Text sessions: the Session methods of Coordinator do all of it.
//
// The conductor: Coordinator.Turn with TurnRequest.Client and its Wait. EventToolAsked
// is the moment to send tool.call, by its AppName; Turn.Deliver brings the tool.result; Turn.Waiting
// and Turn.Events give a reconnecting app its turn where it was.
//
// The queue: a delivery is Coordinator.Turn with the change of the row in Opening;
// ErrBusy leaves the row as it was. A TurnObserver learns when a thread is free
// again, and Result.Err says by its kind whether the next try would fail as well.
//
// Titles: text turns ask by themselves; whoever ends a voice call, or a turn of
// one, calls Coordinator.Talked.
package chat
