// Package chat answers a thread by text.
//
//	POST …/messages    /text/session/…    /conductor    the queue      clients of this package
//	       └───────────────┴───────┬────────┴─────────────┘
//	                           Door.Say ──────────────▶ the thread's live call
//	                               │
//	                          Coordinator.Turn             one at a time on a thread
//	                               │ a goroutine of its own
//	   thread ── History ──▶ Request ──▶ Provider.Stream   text, calls, usage
//	      ▲                        ▲            │
//	      │                        └─ results ──┤ calls
//	      │                    toolkit.Router ◀─┘ or the client of the turn
//	      └── one message: step-start, text, tool parts …
//
// A turn begins with one transaction: it takes the thread (a row, so that
// no other process on the same database runs one), closes calls that a
// client left open, and saves the user's message with an empty answer. A queued
// message that it answers is marked as sent with that. From
// then on the turn needs no client: it goes on when the client leaves, and always
// ends with a saved message: completed, interrupted, or failed with words that say
// why.
//
// While it runs, the text is sent to the thread's watchers as it comes, and saved by the
// writer that calls use too (persistence/spool), so that a slow database does
// not hold up the stream. Changes of a message have no effect once the turn has
// lost its thread. If the database is unavailable when the turn ends, the end is
// announced as soon as the writer's file has it, and saved when the database is back. [Turn.Events]
// yields the turn piece by piece to any number of readers, from any event on.
//
// A call of a tool of Config.ApproveTools waits for the user's approval. The approval
// is a row that is saved with the call, and announced to the thread's watchers; the
// decision, which [Coordinator.Decide] writes, may come to any process. Without a
// decision within a minute, the call is refused.
//
// A voice call asks for a turn by a tool, [Coordinator.AskAgent]. Such a turn has no
// message of the user.
//
// # How clients use it
//
// All that a user types: Door.Say, which decides between the live call and a turn, and knows what is sent again.
//
// Threads: then Turn.Wait for JSON, or Turn.Events for a stream.
// Coordinator.Running finds the turn again after a reconnect, Coordinator.Interrupt
// stops it. The kinds of events are those of the AI SDK's UI message stream, in
// the same order, so that one event becomes one chunk:
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
// Text sessions: the Session methods of Coordinator do everything.
//
// The conductor: Door.Say with TurnRequest.Client and its Wait. EventToolAsked
// says when to send tool.call, with the tool's AppName; Turn.Deliver takes the tool.result.
// With Turn.Waiting and Turn.Events a reconnecting app continues where it was.
//
// The queue: it sends a message by Door.Say, with its claim;
// ErrBusy leaves the row as it was. A TurnObserver is notified when a thread is free
// again, and the kind of Result.Err says whether the next attempt would fail as well.
//
// Titles: text turns ask for them by themselves; whoever ends a voice call, or a turn of
// one, calls Coordinator.Talked.
package chat
