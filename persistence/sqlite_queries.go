package persistence

import (
	"context"

	"voicebridge/persistence/internal/pgdb"
	"voicebridge/persistence/internal/sqlitedb"
)

// sqliteQueries makes SQLite's queries look like PostgreSQL's. It only converts
// structs, which Go allows between equal ones: where the two schemas or the two
// sets of queries differ, this file does not compile.
type sqliteQueries struct{ q *sqlitedb.Queries }

// rows converts what a query gives.
func rows[From, To any](from []From, err error, convert func(From) To) ([]To, error) {
	if err != nil {
		return nil, err
	}
	to := make([]To, len(from))
	for i, r := range from {
		to[i] = convert(r)
	}
	return to, nil
}

func (s sqliteQueries) AnswerApproval(ctx context.Context, arg pgdb.AnswerApprovalParams) (int64, error) {
	return s.q.AnswerApproval(ctx, sqlitedb.AnswerApprovalParams(arg))
}

func (s sqliteQueries) ChangeQueued(ctx context.Context, arg pgdb.ChangeQueuedParams) (int64, error) {
	return s.q.ChangeQueued(ctx, sqlitedb.ChangeQueuedParams(arg))
}

func (s sqliteQueries) ClaimTurn(ctx context.Context, arg pgdb.ClaimTurnParams) (int64, error) {
	return s.q.ClaimTurn(ctx, sqlitedb.ClaimTurnParams(arg))
}

func (s sqliteQueries) ClearQueued(ctx context.Context, arg pgdb.ClearQueuedParams) (int64, error) {
	return s.q.ClearQueued(ctx, sqlitedb.ClearQueuedParams(arg))
}

func (s sqliteQueries) CloseApproval(ctx context.Context, arg pgdb.CloseApprovalParams) (int64, error) {
	return s.q.CloseApproval(ctx, sqlitedb.CloseApprovalParams(arg))
}

func (s sqliteQueries) CloseOpenApprovals(ctx context.Context, arg pgdb.CloseOpenApprovalsParams) error {
	return s.q.CloseOpenApprovals(ctx, sqlitedb.CloseOpenApprovalsParams(arg))
}

func (s sqliteQueries) CountQueued(ctx context.Context, arg pgdb.CountQueuedParams) (int64, error) {
	return s.q.CountQueued(ctx, sqlitedb.CountQueuedParams(arg))
}

func (s sqliteQueries) CountUnsent(ctx context.Context, arg pgdb.CountUnsentParams) (int64, error) {
	return s.q.CountUnsent(ctx, sqlitedb.CountUnsentParams(arg))
}

func (s sqliteQueries) CreateThread(ctx context.Context, arg pgdb.CreateThreadParams) (pgdb.Thread, error) {
	r, err := s.q.CreateThread(ctx, sqlitedb.CreateThreadParams(arg))
	return pgdb.Thread(r), err
}

func (s sqliteQueries) DeleteQueued(ctx context.Context, arg pgdb.DeleteQueuedParams) (int64, error) {
	return s.q.DeleteQueued(ctx, sqlitedb.DeleteQueuedParams(arg))
}

func (s sqliteQueries) DeleteThread(ctx context.Context, arg pgdb.DeleteThreadParams) (int64, error) {
	return s.q.DeleteThread(ctx, sqlitedb.DeleteThreadParams(arg))
}

func (s sqliteQueries) DrawSeq(ctx context.Context, arg pgdb.DrawSeqParams) (pgdb.Thread, error) {
	r, err := s.q.DrawSeq(ctx, sqlitedb.DrawSeqParams(arg))
	return pgdb.Thread(r), err
}

func (s sqliteQueries) DrawSeqForNew(ctx context.Context, arg pgdb.DrawSeqForNewParams) (pgdb.Thread, error) {
	r, err := s.q.DrawSeqForNew(ctx, sqlitedb.DrawSeqForNewParams(arg))
	return pgdb.Thread(r), err
}

func (s sqliteQueries) EndOpenCalls(ctx context.Context, arg pgdb.EndOpenCallsParams) error {
	return s.q.EndOpenCalls(ctx, sqlitedb.EndOpenCallsParams(arg))
}

func (s sqliteQueries) EndOpenTurns(ctx context.Context, arg pgdb.EndOpenTurnsParams) error {
	return s.q.EndOpenTurns(ctx, sqlitedb.EndOpenTurnsParams(arg))
}

func (s sqliteQueries) EndTurn(ctx context.Context, arg pgdb.EndTurnParams) (int64, error) {
	return s.q.EndTurn(ctx, sqlitedb.EndTurnParams(arg))
}

func (s sqliteQueries) FailOpenResponses(ctx context.Context, arg pgdb.FailOpenResponsesParams) error {
	return s.q.FailOpenResponses(ctx, sqlitedb.FailOpenResponsesParams(arg))
}

func (s sqliteQueries) FailOpenToolCalls(ctx context.Context, arg pgdb.FailOpenToolCallsParams) error {
	return s.q.FailOpenToolCalls(ctx, sqlitedb.FailOpenToolCallsParams(arg))
}

func (s sqliteQueries) FirstMessageAfter(ctx context.Context, arg pgdb.FirstMessageAfterParams) (pgdb.FirstMessageAfterRow, error) {
	r, err := s.q.FirstMessageAfter(ctx, sqlitedb.FirstMessageAfterParams(arg))
	return pgdb.FirstMessageAfterRow(r), err
}

func (s sqliteQueries) GetApproval(ctx context.Context, arg pgdb.GetApprovalParams) (pgdb.GetApprovalRow, error) {
	r, err := s.q.GetApproval(ctx, sqlitedb.GetApprovalParams(arg))
	return pgdb.GetApprovalRow(r), err
}

func (s sqliteQueries) GetLiveCall(ctx context.Context, arg pgdb.GetLiveCallParams) (pgdb.Call, error) {
	r, err := s.q.GetLiveCall(ctx, sqlitedb.GetLiveCallParams(arg))
	return pgdb.Call(r), err
}

func (s sqliteQueries) GetMessage(ctx context.Context, arg pgdb.GetMessageParams) (pgdb.Message, error) {
	r, err := s.q.GetMessage(ctx, sqlitedb.GetMessageParams(arg))
	return pgdb.Message(r), err
}

func (s sqliteQueries) GetOwner(ctx context.Context, arg pgdb.GetOwnerParams) (string, error) {
	return s.q.GetOwner(ctx, sqlitedb.GetOwnerParams(arg))
}

func (s sqliteQueries) GetQueuePause(ctx context.Context, arg pgdb.GetQueuePauseParams) (pgdb.QueuePause, error) {
	r, err := s.q.GetQueuePause(ctx, sqlitedb.GetQueuePauseParams(arg))
	return pgdb.QueuePause(r), err
}

func (s sqliteQueries) GetQueued(ctx context.Context, arg pgdb.GetQueuedParams) (pgdb.QueuedMessage, error) {
	r, err := s.q.GetQueued(ctx, sqlitedb.GetQueuedParams(arg))
	return pgdb.QueuedMessage(r), err
}

func (s sqliteQueries) GetQueuedByKey(ctx context.Context, arg pgdb.GetQueuedByKeyParams) (pgdb.QueuedMessage, error) {
	r, err := s.q.GetQueuedByKey(ctx, sqlitedb.GetQueuedByKeyParams(arg))
	return pgdb.QueuedMessage(r), err
}

func (s sqliteQueries) GetTextSession(ctx context.Context, arg pgdb.GetTextSessionParams) (pgdb.TextSession, error) {
	r, err := s.q.GetTextSession(ctx, sqlitedb.GetTextSessionParams(arg))
	return pgdb.TextSession(r), err
}

func (s sqliteQueries) GetThread(ctx context.Context, arg pgdb.GetThreadParams) (pgdb.Thread, error) {
	r, err := s.q.GetThread(ctx, sqlitedb.GetThreadParams(arg))
	return pgdb.Thread(r), err
}

func (s sqliteQueries) GetToolCall(ctx context.Context, arg pgdb.GetToolCallParams) (pgdb.ToolCall, error) {
	r, err := s.q.GetToolCall(ctx, sqlitedb.GetToolCallParams(arg))
	return pgdb.ToolCall(r), err
}

func (s sqliteQueries) GetTurn(ctx context.Context, arg pgdb.GetTurnParams) (pgdb.Turn, error) {
	r, err := s.q.GetTurn(ctx, sqlitedb.GetTurnParams(arg))
	return pgdb.Turn(r), err
}

func (s sqliteQueries) InsertMessage(ctx context.Context, arg pgdb.InsertMessageParams) (pgdb.Message, error) {
	r, err := s.q.InsertMessage(ctx, sqlitedb.InsertMessageParams(arg))
	return pgdb.Message(r), err
}

func (s sqliteQueries) InsertQueued(ctx context.Context, arg pgdb.InsertQueuedParams) (pgdb.QueuedMessage, error) {
	r, err := s.q.InsertQueued(ctx, sqlitedb.InsertQueuedParams(arg))
	return pgdb.QueuedMessage(r), err
}

func (s sqliteQueries) KeepTurn(ctx context.Context, arg pgdb.KeepTurnParams) (pgdb.Turn, error) {
	r, err := s.q.KeepTurn(ctx, sqlitedb.KeepTurnParams(arg))
	return pgdb.Turn(r), err
}

func (s sqliteQueries) LastMessage(ctx context.Context, arg pgdb.LastMessageParams) (int64, error) {
	return s.q.LastMessage(ctx, sqlitedb.LastMessageParams(arg))
}

func (s sqliteQueries) LastTurn(ctx context.Context, arg pgdb.LastTurnParams) (pgdb.Turn, error) {
	r, err := s.q.LastTurn(ctx, sqlitedb.LastTurnParams(arg))
	return pgdb.Turn(r), err
}

func (s sqliteQueries) ListChanges(ctx context.Context, arg pgdb.ListChangesParams) ([]pgdb.Message, error) {
	r, err := s.q.ListChanges(ctx, sqlitedb.ListChangesParams(arg))
	return rows(r, err, func(r sqlitedb.Message) pgdb.Message { return pgdb.Message(r) })
}

func (s sqliteQueries) ListDueQueues(ctx context.Context, arg pgdb.ListDueQueuesParams) ([]pgdb.ListDueQueuesRow, error) {
	r, err := s.q.ListDueQueues(ctx, sqlitedb.ListDueQueuesParams(arg))
	return rows(r, err, func(r sqlitedb.ListDueQueuesRow) pgdb.ListDueQueuesRow { return pgdb.ListDueQueuesRow(r) })
}

func (s sqliteQueries) ListMessages(ctx context.Context, arg pgdb.ListMessagesParams) ([]pgdb.Message, error) {
	r, err := s.q.ListMessages(ctx, sqlitedb.ListMessagesParams(arg))
	return rows(r, err, func(r sqlitedb.Message) pgdb.Message { return pgdb.Message(r) })
}

func (s sqliteQueries) ListOpenApprovals(ctx context.Context, arg pgdb.ListOpenApprovalsParams) ([]pgdb.ListOpenApprovalsRow, error) {
	r, err := s.q.ListOpenApprovals(ctx, sqlitedb.ListOpenApprovalsParams(arg))
	return rows(r, err, func(r sqlitedb.ListOpenApprovalsRow) pgdb.ListOpenApprovalsRow { return pgdb.ListOpenApprovalsRow(r) })
}

func (s sqliteQueries) ListOpenCalls(ctx context.Context, arg pgdb.ListOpenCallsParams) ([]pgdb.Call, error) {
	r, err := s.q.ListOpenCalls(ctx, sqlitedb.ListOpenCallsParams(arg))
	return rows(r, err, func(r sqlitedb.Call) pgdb.Call { return pgdb.Call(r) })
}

func (s sqliteQueries) ListOpenInstances(ctx context.Context) ([]string, error) {
	return s.q.ListOpenInstances(ctx)
}

func (s sqliteQueries) ListOpenMessages(ctx context.Context, arg pgdb.ListOpenMessagesParams) ([]pgdb.Message, error) {
	r, err := s.q.ListOpenMessages(ctx, sqlitedb.ListOpenMessagesParams(arg))
	return rows(r, err, func(r sqlitedb.Message) pgdb.Message { return pgdb.Message(r) })
}

func (s sqliteQueries) ListQueued(ctx context.Context, arg pgdb.ListQueuedParams) ([]pgdb.QueuedMessage, error) {
	r, err := s.q.ListQueued(ctx, sqlitedb.ListQueuedParams(arg))
	return rows(r, err, func(r sqlitedb.QueuedMessage) pgdb.QueuedMessage { return pgdb.QueuedMessage(r) })
}

func (s sqliteQueries) ListPausedQueues(ctx context.Context, arg pgdb.ListPausedQueuesParams) ([]pgdb.ListPausedQueuesRow, error) {
	r, err := s.q.ListPausedQueues(ctx, sqlitedb.ListPausedQueuesParams(arg))
	return rows(r, err, func(r sqlitedb.ListPausedQueuesRow) pgdb.ListPausedQueuesRow { return pgdb.ListPausedQueuesRow(r) })
}

func (s sqliteQueries) ListReplay(ctx context.Context, arg pgdb.ListReplayParams) ([]pgdb.Message, error) {
	r, err := s.q.ListReplay(ctx, sqlitedb.ListReplayParams(arg))
	return rows(r, err, func(r sqlitedb.Message) pgdb.Message { return pgdb.Message(r) })
}

func (s sqliteQueries) ListThreads(ctx context.Context, arg pgdb.ListThreadsParams) ([]pgdb.Thread, error) {
	r, err := s.q.ListThreads(ctx, sqlitedb.ListThreadsParams(arg))
	return rows(r, err, func(r sqlitedb.Thread) pgdb.Thread { return pgdb.Thread(r) })
}

func (s sqliteQueries) ListWaitingToolCalls(ctx context.Context, arg pgdb.ListWaitingToolCallsParams) ([]pgdb.ToolCall, error) {
	r, err := s.q.ListWaitingToolCalls(ctx, sqlitedb.ListWaitingToolCallsParams(arg))
	return rows(r, err, func(r sqlitedb.ToolCall) pgdb.ToolCall { return pgdb.ToolCall(r) })
}

func (s sqliteQueries) PauseQueue(ctx context.Context, arg pgdb.PauseQueueParams) error {
	return s.q.PauseQueue(ctx, sqlitedb.PauseQueueParams(arg))
}

func (s sqliteQueries) RenameThread(ctx context.Context, arg pgdb.RenameThreadParams) (pgdb.Thread, error) {
	r, err := s.q.RenameThread(ctx, sqlitedb.RenameThreadParams(arg))
	return pgdb.Thread(r), err
}

func (s sqliteQueries) RequeueOpen(ctx context.Context, arg pgdb.RequeueOpenParams) error {
	return s.q.RequeueOpen(ctx, sqlitedb.RequeueOpenParams(arg))
}

func (s sqliteQueries) ResetThread(ctx context.Context, arg pgdb.ResetThreadParams) (int64, error) {
	return s.q.ResetThread(ctx, sqlitedb.ResetThreadParams(arg))
}

func (s sqliteQueries) ResumeQueue(ctx context.Context, arg pgdb.ResumeQueueParams) (int64, error) {
	return s.q.ResumeQueue(ctx, sqlitedb.ResumeQueueParams(arg))
}

func (s sqliteQueries) SaveApproval(ctx context.Context, arg pgdb.SaveApprovalParams) error {
	return s.q.SaveApproval(ctx, sqlitedb.SaveApprovalParams(arg))
}

func (s sqliteQueries) SaveCall(ctx context.Context, arg pgdb.SaveCallParams) (int64, error) {
	return s.q.SaveCall(ctx, sqlitedb.SaveCallParams(arg))
}

func (s sqliteQueries) SaveResponse(ctx context.Context, arg pgdb.SaveResponseParams) (int64, error) {
	return s.q.SaveResponse(ctx, sqlitedb.SaveResponseParams(arg))
}

func (s sqliteQueries) SaveTextSession(ctx context.Context, arg pgdb.SaveTextSessionParams) error {
	return s.q.SaveTextSession(ctx, sqlitedb.SaveTextSessionParams(arg))
}

func (s sqliteQueries) SaveToolCall(ctx context.Context, arg pgdb.SaveToolCallParams) (int64, error) {
	return s.q.SaveToolCall(ctx, sqlitedb.SaveToolCallParams(arg))
}

func (s sqliteQueries) SearchMessages(ctx context.Context, arg pgdb.SearchMessagesParams) ([]pgdb.SearchMessagesRow, error) {
	r, err := s.q.SearchMessages(ctx, sqlitedb.SearchMessagesParams(arg))
	return rows(r, err, func(r sqlitedb.SearchMessagesRow) pgdb.SearchMessagesRow { return pgdb.SearchMessagesRow(r) })
}

func (s sqliteQueries) ShiftMessages(ctx context.Context, arg pgdb.ShiftMessagesParams) ([]pgdb.Message, error) {
	r, err := s.q.ShiftMessages(ctx, sqlitedb.ShiftMessagesParams(arg))
	return rows(r, err, func(r sqlitedb.Message) pgdb.Message { return pgdb.Message(r) })
}

func (s sqliteQueries) StopTurn(ctx context.Context, arg pgdb.StopTurnParams) (int64, error) {
	return s.q.StopTurn(ctx, sqlitedb.StopTurnParams(arg))
}

func (s sqliteQueries) SuggestTitle(ctx context.Context, arg pgdb.SuggestTitleParams) (int64, error) {
	return s.q.SuggestTitle(ctx, sqlitedb.SuggestTitleParams(arg))
}

func (s sqliteQueries) TitleQueued(ctx context.Context, arg pgdb.TitleQueuedParams) (int64, error) {
	return s.q.TitleQueued(ctx, sqlitedb.TitleQueuedParams(arg))
}

func (s sqliteQueries) UpdateMessage(ctx context.Context, arg pgdb.UpdateMessageParams) (pgdb.Message, error) {
	r, err := s.q.UpdateMessage(ctx, sqlitedb.UpdateMessageParams(arg))
	return pgdb.Message(r), err
}

func (s sqliteQueries) UsageByDay(ctx context.Context, arg pgdb.UsageByDayParams) ([]pgdb.UsageByDayRow, error) {
	r, err := s.q.UsageByDay(ctx, sqlitedb.UsageByDayParams(arg))
	return rows(r, err, func(r sqlitedb.UsageByDayRow) pgdb.UsageByDayRow { return pgdb.UsageByDayRow(r) })
}
