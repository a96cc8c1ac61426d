"""Checks the output of a model and writes it as files. Rejects media that contain non-finite values, have the
same value throughout, or have no frames.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from PIL import Image

from generative.job import UnusableOutput

SCENE_TYPES = {
    "glb": "model/gltf-binary",
    "obj": "model/obj",
    "ply": "application/octet-stream",
    "stl": "model/stl",
}


@dataclass(frozen=True)
class OutputFile:
    """One file of the response."""

    filename: str
    content_type: str
    modality: str
    data: bytes


def image_files(images: Any) -> list[OutputFile]:
    """Writes images, given as numbers from 0 to 1."""
    array = np.asarray(images)
    if array.ndim != 4 or array.shape[0] == 0:
        raise UnusableOutput("the model generated no image")
    shown = to_bytes(array, "image")
    files = []
    for index, image in enumerate(shown):
        refuse_flat(image, "image")
        out = io.BytesIO()
        Image.fromarray(image).save(out, "PNG")
        name = "image.png" if len(shown) == 1 else f"image-{index}.png"
        files.append(OutputFile(name, "image/png", "image", out.getvalue()))
    return files


def video_file(frames: Any, fps: int) -> OutputFile:
    """Writes the frames of a video, given as numbers from 0 to 1, as H.264."""
    import av

    array = np.asarray(frames)
    if array.ndim != 4 or array.shape[0] == 0:
        raise UnusableOutput("the model generated a video without frames")
    shown = to_bytes(array, "video")
    refuse_flat(shown, "video")
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps))
        # The encoder requires an even width and height.
        stream.height, stream.width = (side // 2 * 2 for side in shown.shape[1:3])
        stream.pix_fmt = "yuv420p"
        # With more threads, the output would depend on the machine.
        stream.options = {"crf": "18", "threads": "1"}
        for frame in shown[:, : stream.height, : stream.width]:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())
    return OutputFile("video.mp4", "video/mp4", "video", out.getvalue())


def scene_file(mesh: Any, form: str) -> tuple[OutputFile, dict[str, int]]:
    """Writes the mesh of a Shap-E model, and counts its vertices and faces."""
    import trimesh

    vertices = mesh.verts.float().cpu().numpy()
    faces = mesh.faces.cpu().numpy()
    if len(faces) == 0 or len(vertices) == 0:
        raise UnusableOutput("the model generated a scene without faces")
    refuse_not_finite(vertices, "scene")
    refuse_flat(vertices, "scene")
    channels = [mesh.vertex_channels[channel].float().cpu().numpy() for channel in "RGB"]
    colours = to_bytes(np.stack(channels, axis=-1), "scene")
    # In these models the z axis points up; in scene files, the y axis does.
    upright = vertices[:, [0, 2, 1]] * np.array([1, 1, -1], dtype=np.float32)
    scene = trimesh.Trimesh(upright, faces, vertex_colors=colours, process=False)
    data = scene.export(file_type=form)
    data = data.encode() if isinstance(data, str) else data
    counts = {"vertices": len(vertices), "faces": len(faces)}
    return OutputFile(f"scene.{form}", SCENE_TYPES[form], "3d", data), counts


def to_bytes(array: Any, what: str) -> Any:
    """Converts numbers from 0 to 1 to bytes."""
    refuse_not_finite(array, what)
    return np.round(np.clip(array, 0, 1) * 255).astype(np.uint8)


def refuse_not_finite(array: Any, what: str) -> None:
    """Raises `UnusableOutput` for values that aren't finite."""
    if not np.isfinite(array).all():
        raise UnusableOutput(f"the model generated {what} data with values that are not finite numbers")


def refuse_flat(array: Any, what: str) -> None:
    """Raises `UnusableOutput` for media with the same value everywhere."""
    if array.min() == array.max():
        raise UnusableOutput(f"the model generated {what} data with one value throughout")
