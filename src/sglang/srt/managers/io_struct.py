"""Old address of the records that travel between the processes."""

from sglang.ipc.inputs import GenerateReqInput as GenerateReqInput
from sglang.ipc.messages import AbortReq as AbortReq
from sglang.ipc.messages import BatchStrOutput as BatchStrOutput
from sglang.ipc.messages import BatchTokenIDOutput as BatchTokenIDOutput
from sglang.ipc.messages import FlushCacheReqInput as FlushCacheReqInput
from sglang.ipc.messages import FlushCacheReqOutput as FlushCacheReqOutput
from sglang.ipc.messages import TokenizedGenerateReqInput as TokenizedGenerateReqInput
