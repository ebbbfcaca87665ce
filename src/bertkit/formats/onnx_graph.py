"""A model as an ONNX graph, operator by operator: the arithmetic of the paper on padded input.

The graph is written out here and not traced, so that it is the same whatever the version of torch,
takes no time, and has nothing in it but BERT. Operators are those of opset 17, which every runtime
of the last years knows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.errors import UserError
from bertkit.formats.heads import HEADS, MASKED_LM, WHOLE, dense_layer
from bertkit.model.config import ModelConfig

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET = 17
"""The first with LayerNormalization."""
IR_VERSION = 8
"""Of the files of that opset's time; a newer one would shut older runtimes out."""
_MASKED = -1e30
"""Added to the score of what may not be seen; twice it is still a finite number."""


class _Graph:
    """Nodes and weights in the order of their making; each method returns a value's name."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        number = len(self.nodes)
        names = [f"{kind}_{number}" + (f"_{k}" if k else "") for k in range(outputs)]
        node = self.onnx.helper.make_node(kind, list(inputs), names, names[0], **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def weight(self, name: str, value: Tensor) -> str:
        if name not in self.weights:
            array = value.detach().to("cpu", torch.float32).contiguous().numpy()
            self.weights[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def number(self, *values: float, shape: tuple[int, ...] | None = None) -> str:
        """A constant: integers as int64, others as float32."""
        whole = all(isinstance(value, int) for value in values)
        array = np.array(values, dtype=np.int64 if whole else np.float32)
        array = array.reshape((len(values),) if shape is None else shape)
        name = f"constant_{array.dtype}_{'_'.join(map(str, values))}_{array.ndim}"
        if name not in self.weights:
            self.weights[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def scalar(self, value: float) -> str:
        return self.number(float(value), shape=())

    def dense(self, values: str, name: str, layer: Any) -> str:
        product = self.op("MatMul", values, self.weight(f"{name}.weight", layer.weight.T))
        return str(self.op("Add", product, self.weight(f"{name}.bias", layer.bias)))

    def norm(self, values: str, name: str, layer: Any) -> str:
        weight = self.weight(f"{name}.weight", layer.weight)
        bias = self.weight(f"{name}.bias", layer.bias)
        return str(
            self.op("LayerNormalization", values, weight, bias, axis=-1, epsilon=float(layer.eps))
        )

    def activation(self, values: str, name: str) -> str:
        if name == "relu":
            return str(self.op("Relu", values))
        if name == "gelu":  # x / 2 * (1 + erf(x / sqrt(2)))
            inner = self.op("Erf", self.op("Div", values, self.scalar(math.sqrt(2))))
        else:  # x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
            cube = self.op("Mul", self.op("Mul", values, values), values)
            sum_ = self.op("Add", values, self.op("Mul", cube, self.scalar(0.044715)))
            inner = self.op("Tanh", self.op("Mul", sum_, self.scalar(math.sqrt(2 / math.pi))))
        product = self.op("Mul", values, self.op("Add", inner, self.scalar(1.0)))
        return str(self.op("Mul", product, self.scalar(0.5)))


def graph_of(model: nn.Module) -> Any:
    """The model's graph, an onnx.ModelProto with its weights inside.

    Raises UserError for a head that has none.
    """
    import onnx

    import bertkit

    of: Any = model
    head = HEADS[of.head]
    if any(output.layer == WHOLE for output in head.outputs.values()):
        raise UserError(f"a {of.head} model has no form as an ONNX graph; write another format")
    graph = _Graph(onnx)
    hidden = _encoder(graph, of.encoder)
    pooled: str | None = None
    outputs = []
    for name, output in head.outputs.items():
        states = hidden
        if output.of == "sequences":
            pooled = pooled or _pooled(graph, hidden, of.encoder)
            states = pooled
        shape: list[Any] = ["batch", "sequence"] if output.of == "tokens" else ["batch"]
        size = of.config.hidden_size
        if output.layer == MASKED_LM:
            states, size = _masked_lm(graph, states, of.masked_lm, of.config), of.config.vocab_size
        elif output.layer:
            layer = dense_layer(of, output.layer)
            states, size = graph.dense(states, output.layer, layer), layer.bias.numel()
        if output.column is None:
            shape.append(size)
        else:
            column = graph.number(output.column, shape=())
            states = graph.op("Gather", states, column, axis=-1)
        graph.nodes.append(onnx.helper.make_node("Identity", [states], [name], f"output_{name}"))
        kind = onnx.TensorProto.FLOAT
        outputs.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "sequence"])
        for name in INPUTS
    ]
    made = onnx.helper.make_graph(
        graph.nodes, "bert", inputs, outputs, list(graph.weights.values())
    )
    return onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="bertkit",
        producer_version=bertkit.__version__,
    )


def _encoder(graph: _Graph, encoder: Any) -> str:
    """The last hidden states, [batch, sequence, hidden]."""
    config: ModelConfig = encoder.config
    ids, mask, segments = INPUTS
    tables, prefix = encoder.embeddings, "encoder.embeddings"
    length = graph.op("Shape", ids, start=1, end=2)  # [1]
    position = graph.weight(f"{prefix}.position", tables.position)
    position = graph.op("Slice", position, graph.number(0), length, graph.number(0))
    hidden = graph.op("Gather", graph.weight(f"{prefix}.token", tables.token), ids, axis=0)
    hidden = graph.op("Add", hidden, position)
    segment = graph.op("Gather", graph.weight(f"{prefix}.segment", tables.segment), segments)
    hidden = graph.norm(graph.op("Add", hidden, segment), f"{prefix}.norm", tables.norm)
    seen = graph.op("Cast", mask, to=graph.onnx.TensorProto.FLOAT)
    seen = graph.op("Unsqueeze", seen, graph.number(1, 2))  # [batch, 1, 1, sequence]
    added = graph.op("Mul", graph.op("Sub", graph.scalar(1.0), seen), graph.scalar(_MASKED))
    if config.causal:
        size = config.max_positions
        later = graph.weight("later", torch.full((size, size), _MASKED).triu(1))
        ends = graph.op("Concat", length, length, axis=0)
        later = graph.op("Slice", later, graph.number(0, 0), ends, graph.number(0, 1))
        added = graph.op("Add", added, later)
    for number, block in enumerate(encoder.blocks):
        hidden = _block(graph, hidden, added, block, f"encoder.blocks.{number}", config)
    return str(hidden)


def _block(
    graph: _Graph, hidden: str, added: str, block: Any, prefix: str, config: ModelConfig
) -> str:
    """One layer: [batch, sequence, hidden] -> the same; `added` goes to the scores."""
    size = config.head_size
    shape = graph.number(0, 0, config.heads, size)  # 0: as it was
    qkv = graph.dense(hidden, f"{prefix}.qkv", block.qkv)
    parts = [
        graph.op("Reshape", part, shape)  # [batch, sequence, heads, size]
        for part in graph.op("Split", qkv, outputs=3, axis=-1)
    ]
    query, value = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts[::2])
    key = graph.op("Transpose", parts[1], perm=[0, 2, 3, 1])
    scores = graph.op("Div", graph.op("MatMul", query, key), graph.scalar(math.sqrt(size)))
    chances = graph.op("Softmax", graph.op("Add", scores, added), axis=-1)
    context = graph.op("Transpose", graph.op("MatMul", chances, value), perm=[0, 2, 1, 3])
    context = graph.op("Reshape", context, graph.number(0, 0, config.hidden_size))
    attended = graph.dense(context, f"{prefix}.attention_output", block.attention_output)
    total = graph.op("Add", hidden, attended)
    hidden = graph.norm(total, f"{prefix}.attention_norm", block.attention_norm)
    inner = graph.dense(hidden, f"{prefix}.expand", block.expand)
    inner = graph.activation(inner, config.activation)
    fed = graph.dense(inner, f"{prefix}.contract", block.contract)
    total = graph.op("Add", hidden, fed)
    return graph.norm(total, f"{prefix}.feed_forward_norm", block.feed_forward_norm)


def _pooled(graph: _Graph, hidden: str, encoder: Any) -> str:
    """[batch, sequence, hidden] -> [batch, hidden]: of the first token, of the last if causal."""
    if encoder.config.causal:
        count = graph.op("ReduceSum", INPUTS[1], graph.number(1), keepdims=1)  # [batch, 1]
        last = graph.op("Sub", count, graph.number(1))
        summary = graph.op("GatherND", hidden, last, batch_dims=1)
    else:
        summary = graph.op("Gather", hidden, graph.number(0, shape=()), axis=1)
    return str(graph.op("Tanh", graph.dense(summary, "encoder.pooler", encoder.pooler)))


def _masked_lm(graph: _Graph, hidden: str, head: Any, config: ModelConfig) -> str:
    """[batch, sequence, hidden] -> [batch, sequence, vocabulary]."""
    inner = graph.activation(graph.dense(hidden, "masked_lm.dense", head.dense), config.activation)
    inner = graph.norm(inner, "masked_lm.norm", head.norm)
    name = "encoder.embeddings.token" if config.tied else "masked_lm.embeddings"
    table = graph.op("Transpose", graph.weight(name, head.embeddings), perm=[1, 0])
    logits = graph.op("MatMul", inner, table)
    return str(graph.op("Add", logits, graph.weight("masked_lm.bias", head.bias)))
